//! Parses the head of a response: its status, and where the body ends.
//!
//! httparse is not used: it rejects a head with an invalid header, which must be printed here like any other.

pub const MAX_LENGTH: usize = 256 * 1024;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Empty,
    /// After this many bytes.
    Length(u64),
    Chunked,
    /// At the end of the connection.
    UntilClose,
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// Length in bytes, including the empty line.
    pub length: usize,
    pub framing: Framing,
}

/// The head is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The response does not start with `HTTP/1`.
    #[error("the response is not HTTP/1")]
    NotHttp,
    #[error("the response head is longer than 256 KiB")]
    TooLong,
    #[error("invalid Content-Length in the response")]
    Length,
}

impl Head {
    /// Whether another head follows, as after 100 Continue and 103 Early Hints. After 101 the protocol is not HTTP any more.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Parses a head from the start of the received bytes; None while it is incomplete.
    pub fn read(bytes: &[u8], is_head_request: bool) -> Result<Option<Self>, Error> {
        const START: &[u8] = b"HTTP/1.";
        let known = bytes.len().min(START.len());
        if bytes[..known] != START[..known] {
            return Err(Error::NotHttp);
        }
        let Some(length) = end(bytes) else {
            return if bytes.len() >= MAX_LENGTH {
                Err(Error::TooLong)
            } else {
                Ok(None)
            };
        };
        let mut lines = bytes[..length].split(|byte| *byte == b'\n').map(line);
        let status = lines.next().and_then(status).ok_or(Error::NotHttp)?;
        let framing = framing(lines)?;
        let is_empty = is_head_request || status < 200 || status == 204 || status == 304;
        Ok(Some(Self {
            status,
            length,
            framing: if is_empty { Framing::Empty } else { framing },
        }))
    }
}

/// The index after the empty line.
fn end(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    while let Some(length) = bytes[start..]
        .iter()
        .take(MAX_LENGTH)
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
    // RFC 9112 requires a space even without a reason phrase, but some servers omit it.
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
            let last = value
                .rsplit(|byte| *byte == b',')
                .next()
                .unwrap_or_default()
                .trim_ascii();
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
    // A transfer coding overrides Content-Length.
    Ok(match (is_coded, length) {
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) | (None, None) => Framing::UntilClose,
        (None, Some(length)) => Framing::Length(length),
    })
}

fn number(digits: &[u8]) -> Option<u64> {
    // Rust's parser accepts a leading plus.
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
    fn framing_of_the_body() {
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
            let head_response = Head::read(head.as_bytes(), true).unwrap().unwrap();
            assert_eq!(head_response.framing, Empty);
            // Bytes after the head are not part of it.
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
    fn invalid_heads_are_rejected() {
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
        let long = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(MAX_LENGTH / 6));
        assert_eq!(read(&long), Err(Error::TooLong));
    }

    #[test]
    fn interim_statuses() {
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
        fn any_bytes_give_the_same_result_in_any_segmentation(rest in vec(any::<u8>(), 0..200), lines in "(HTTP/1.1 200 OK)?(\r\n|\n)?([a-z-]{0,9}: [a-z0-9]{0,9}\r\n){0,4}") {
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
