//! The head of an answer, of which only two things are understood: how it went, and where the body ends.

/// A head that is longer is not read.
pub const LONGEST: usize = 256 * 1024;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// After so many bytes.
    Length(u64),
    /// Behind the last of its chunks.
    Chunked,
    /// Where the connection ends.
    UntilClose,
}

/// The head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its status.
    pub status: u16,
    /// How many bytes it is long, with the empty line.
    pub length: usize,
    /// Where the body ends.
    pub framing: Framing,
}

/// What came is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not start as one of HTTP/1 does.
    #[error("the answer is not one of HTTP/1")]
    NotHttp,
    /// Its head does not end.
    #[error("the answer's head is longer than 256 KiB")]
    TooLong,
    /// Where its body ends cannot be told.
    #[error("the answer's Content-Length is not one number")]
    Length,
}

impl Head {
    /// Whether another head follows: 100 Continue and 103 Early Hints, but not 101, after which it is no HTTP any more.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Reads a head from the beginning of what has come; None as long as it is not all there.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(bytes: &[u8], asked_for_head: bool) -> Result<Option<Self>, Error> {
        const START: &[u8] = b"HTTP/1.";
        let known = bytes.len().min(START.len());
        if bytes[..known] != START[..known] {
            return Err(Error::NotHttp);
        }
        let Some(length) = end(bytes) else {
            return if bytes.len() >= LONGEST {
                Err(Error::TooLong)
            } else {
                Ok(None)
            };
        };
        let mut lines = bytes[..length].split(|byte| *byte == b'\n').map(line);
        let status = lines.next().and_then(status).ok_or(Error::NotHttp)?;
        let framing = framing(lines)?;
        let is_empty = asked_for_head || status < 200 || status == 204 || status == 304;
        Ok(Some(Self {
            status,
            length,
            framing: if is_empty { Framing::Empty } else { framing },
        }))
    }
}

/// Where the empty line ends.
fn end(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    while let Some(length) = bytes[start..]
        .iter()
        .take(LONGEST)
        .position(|byte| *byte == b'\n')
    {
        let end = start + length;
        if line(&bytes[start..end]).is_empty() {
            return Some(end + 1);
        }
        start = end + 1;
    }
    None
}

fn line(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// `HTTP/1.1 200 OK`
fn status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let [minor, b' ', digits @ ..] = rest else {
        return None;
    };
    let ([a, b, c], rest) = digits.split_first_chunk()?;
    let is_number = [minor, a, b, c].iter().all(|byte| byte.is_ascii_digit());
    // 1.1 wants a space even where no words follow; not everybody knows.
    let ends = matches!(rest, [] | [b' ', ..]);
    let digit = |byte: &u8| u16::from(byte - b'0');
    (is_number && ends && *a != b'0').then(|| digit(a) * 100 + digit(b) * 10 + digit(c))
}

fn framing<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Framing, Error> {
    let mut length = None;
    let mut is_coded = None;
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next();
            let last = last.unwrap_or_default().trim_ascii();
            is_coded = Some(last.eq_ignore_ascii_case(b"chunked"));
        } else if name.eq_ignore_ascii_case(b"content-length") {
            for value in value.split(|byte| *byte == b',') {
                let value = number(value.trim_ascii()).ok_or(Error::Length)?;
                if length.is_some_and(|other| other != value) {
                    return Err(Error::Length);
                }
                length = Some(value);
            }
        }
    }
    // Who codes a body does not know its length.
    Ok(match (is_coded, length) {
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) | (None, None) => Framing::UntilClose,
        (None, Some(length)) => Framing::Length(length),
    })
}

fn number(digits: &[u8]) -> Option<u64> {
    // Rust's own numbers may begin with a plus.
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn read(text: &str) -> Result<Option<Head>, Error> {
        Head::read(text.as_bytes(), false)
    }

    fn framing_of(text: &str) -> Result<Framing, Error> {
        read(text).map(|head| head.unwrap().framing)
    }

    #[test]
    fn where_a_body_ends() {
        use Framing::{Chunked, Empty, Length, UntilClose};
        for (head, framing) in [
            ("HTTP/1.1 200 OK\r\n\r\n", UntilClose),
            ("HTTP/1.0 200\n\n", UntilClose),
            ("HTTP/1.1 200 \r\nContent-Length:7\r\n\r\n", Length(7)),
            (
                "HTTP/1.1 200 \r\nCONTENT-LENGTH: 7, 7\r\ncontent-length: 7\r\n\r\n",
                Length(7),
            ),
            (
                "HTTP/1.1 200 \r\nTransfer-Encoding: Chunked\r\nContent-Length: 7\r\n\r\n",
                Chunked,
            ),
            (
                "HTTP/1.1 200 \r\ntransfer-encoding: gzip, chunked\r\n\r\n",
                Chunked,
            ),
            (
                "HTTP/1.1 200 \r\ntransfer-encoding: gzip\r\n\r\n",
                UntilClose,
            ),
            (
                "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\n",
                Length(7),
            ),
            ("HTTP/1.1 103 \r\nContent-Length: 7\r\n\r\n", Empty),
            ("HTTP/1.1 204 \r\nContent-Length: 7\r\n\r\n", Empty),
            ("HTTP/1.1 304 \r\nContent-Length: 7\r\n\r\n", Empty),
            (
                "HTTP/1.1 200 \r\nno colon\r\n\x1b]0;: x\r\n : y\r\n\r\n",
                UntilClose,
            ),
        ] {
            assert_eq!(framing_of(head), Ok(framing), "{head:?}");
            let asked = Head::read(head.as_bytes(), true).unwrap().unwrap();
            assert_eq!(asked.framing, Empty);
            // Whatever follows is not the head's.
            let more = format!("{head}\r\nmore\r\n\r\n");
            assert_eq!(read(&more).unwrap().unwrap().length, head.len());
        }
        for lengths in [
            "7\r\nContent-Length: 8",
            "7, 8",
            "",
            "-1",
            "+7",
            "7x",
            "99999999999999999999",
        ] {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {lengths}\r\n\r\n");
            assert_eq!(framing_of(&head), Err(Error::Length), "{lengths:?}");
        }
    }

    #[test]
    fn what_is_no_answer() {
        for text in [
            "SSH-2.0-x\r\n",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "HTTP/1.1 2000\r\n\r\n",
            "HTTP/1.1  200\r\n\r\n",
            "HTTP/1.1 099 x\r\n\r\n",
            "\0",
        ] {
            assert_eq!(read(text), Err(Error::NotHttp), "{text:?}");
        }
        let long = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(LONGEST / 6));
        assert_eq!(read(&long), Err(Error::TooLong));
    }

    #[test]
    fn statuses_and_which_are_interim() {
        for (status, is_interim) in [
            (100, true),
            (103, true),
            (101, false),
            (200, false),
            (429, false),
        ] {
            let head = read(&format!("HTTP/1.1 {status} x\r\n\r\n"))
                .unwrap()
                .unwrap();
            assert_eq!((head.status, head.is_interim()), (status, is_interim));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_the_same_however_they_come(rest in vec(any::<u8>(), 0..200), lines in "(HTTP/1.1 200 OK)?(\r\n|\n)?([a-z-]{0,9}: [a-z0-9]{0,9}\r\n){0,4}") {
            let bytes = [lines.as_bytes(), &rest].concat();
            let whole = Head::read(&bytes, false);
            if let Ok(Some(head)) = &whole {
                prop_assert!(head.length <= bytes.len());
                prop_assert_eq!(Head::read(&bytes[..head.length], false), whole.clone());
                prop_assert_eq!(Head::read(&bytes[..head.length - 1], false), Ok(None));
            }
        }
    }
}
