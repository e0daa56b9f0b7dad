//! Decodes the body of a response.

use super::head::Framing;

/// Limit of chunk extensions and trailers, which are skipped.
const MAX_SKIPPED: usize = 64 * 1024;

/// The body is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("invalid chunk size in the response body")]
    Size,
    #[error("a chunk of the response body does not have its announced size")]
    End,
    #[error("chunk extensions and trailers of the response exceed 64 KiB")]
    Skipped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Bytes left.
    Data(u64),
    Size {
        size: u64,
        digits: u8,
    },
    /// The rest of the line after the chunk size.
    Extension(u64),
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// Lines after the last chunk; the length of the current one.
    Trailer {
        line: usize,
    },
    UntilClose,
    Complete,
}

/// The decoder of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    state: State,
    skipped: usize,
}

impl Body {
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Complete,
            Framing::Length(length) => State::Data(length),
            Framing::Chunked => State::SIZE,
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, skipped: 0 }
    }

    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Whether the body may end with the connection.
    pub fn may_end(&self) -> bool {
        matches!(self.state, State::Complete | State::UntilClose)
    }

    /// Decodes received bytes and passes the body to `take`. Bytes after the body are ignored.
    ///
    /// # Errors
    /// [`Error`], after the body before it was passed.
    pub fn read<'a>(
        &mut self,
        mut bytes: &'a [u8],
        mut take: impl FnMut(&'a [u8]),
    ) -> Result<(), Error> {
        while let Some((first, rest)) = bytes.split_first() {
            match self.state {
                State::Complete => return Ok(()),
                State::UntilClose => {
                    take(bytes);
                    return Ok(());
                }
                State::Data(left) => bytes = self.data(bytes, left, State::Complete, &mut take),
                State::Chunk(left) => bytes = self.data(bytes, left, State::ChunkEnd, &mut take),
                State::Size { .. }
                | State::Extension(_)
                | State::ChunkEnd
                | State::Trailer { .. } => {
                    self.state = self.after(*first)?;
                    bytes = rest;
                }
            }
        }
        Ok(())
    }

    fn data<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        end: State,
        take: &mut impl FnMut(&'a [u8]),
    ) -> &'a [u8] {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (data, rest) = bytes.split_at(length);
        take(data);
        let left = left - length as u64;
        self.state = match (left, self.state) {
            (0, _) => end,
            (left, State::Chunk(_)) => State::Chunk(left),
            (left, _) => State::Data(left),
        };
        rest
    }

    /// The state after a byte that is not part of the body.
    fn after(&mut self, byte: u8) -> Result<State, Error> {
        Ok(match (self.state, byte) {
            (State::Size { size, digits }, byte) => match (byte as char).to_digit(16) {
                Some(_) if digits == 15 => return Err(Error::Size),
                Some(digit) => State::Size {
                    size: size * 16 + u64::from(digit),
                    digits: digits + 1,
                },
                None if digits == 0 => return Err(Error::Size),
                None => match byte {
                    b'\n' => State::after_size(size),
                    b'\r' | b';' | b' ' | b'\t' => State::Extension(size),
                    _ => return Err(Error::Size),
                },
            },
            (State::Extension(size), b'\n') => State::after_size(size),
            (State::ChunkEnd, b'\n') => State::SIZE,
            (State::ChunkEnd, b'\r') => State::ChunkEnd,
            (State::ChunkEnd, _) => return Err(Error::End),
            (State::Trailer { line: 0 }, b'\n') => State::Complete,
            (State::Trailer { .. }, b'\n') => State::Trailer { line: 0 },
            (state @ State::Trailer { .. }, b'\r') => state,
            (state, _) => {
                self.skipped += 1;
                if self.skipped > MAX_SKIPPED {
                    return Err(Error::Skipped);
                }
                match state {
                    State::Trailer { line } => State::Trailer { line: line + 1 },
                    other => other,
                }
            }
        })
    }
}

impl State {
    const SIZE: Self = Self::Size { size: 0, digits: 0 };

    fn after_size(size: u64) -> Self {
        match size {
            0 => Self::Trailer { line: 0 },
            size => Self::Chunk(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn read(framing: Framing, parts: &[&[u8]]) -> (Vec<u8>, Result<Body, Error>) {
        let (mut body, mut taken) = (Body::new(framing), Vec::new());
        for part in parts {
            if let Err(error) = body.read(part, |bytes| taken.extend_from_slice(bytes)) {
                return (taken, Err(error));
            }
        }
        (taken, Ok(body))
    }

    #[test]
    fn bodies_are_decoded() {
        use Framing::{Chunked, Empty, Length, UntilClose};
        for (framing, received, body, is_complete) in [
            (Empty, "more", "", true),
            (Length(0), "more", "", true),
            (Length(3), "abcd", "abc", true),
            (Length(5), "abcd", "abcd", false),
            (UntilClose, "abcd", "abcd", false),
            (Chunked, "3\r\nabc\r\n0\r\n\r\nmore", "abc", true),
            (
                Chunked,
                "1 \r\na\r\n00A;x=\"y\"\r\n0123456789\n0\n\n",
                "a0123456789",
                true,
            ),
            (Chunked, "0\r\nTrailer: x\r\nOther: y\r\n\r\n", "", true),
            (Chunked, "0\r\nTrailer: x\r\n", "", false),
            (Chunked, "3\r\nab", "ab", false),
        ] {
            let (taken, ended) = read(framing, &[received.as_bytes()]);
            assert_eq!(taken, body.as_bytes(), "{received:?}");
            let ended = ended.unwrap();
            assert_eq!(ended.is_complete(), is_complete, "{received:?}");
            assert_eq!(ended.may_end(), is_complete || framing == UntilClose);
        }
        let after_size = |length| format!("1;{}", "x".repeat(length));
        let (taken, ended) = read(
            Chunked,
            &[after_size(MAX_SKIPPED).as_bytes(), b"\na\n0\n\n"],
        );
        assert_eq!(taken, b"a");
        assert!(ended.unwrap().is_complete());
        let long = after_size(MAX_SKIPPED + 1);
        for (received, error) in [
            ("\r\n", Error::Size),
            ("g\r\n", Error::Size),
            ("-1\r\n", Error::Size),
            ("1x\r\n", Error::Size),
            ("1000000000000000\r\n", Error::Size),
            ("1\r\nab\r\n", Error::End),
            (&long, Error::Skipped),
        ] {
            let (_, ended) = read(Chunked, &[received.as_bytes()]);
            assert_eq!(ended, Err(error), "{received:.9}");
        }
    }

    proptest! {
        #[test]
        fn chunks_are_decoded_in_any_segmentation(chunks in vec(vec(any::<u8>(), 1..40), 0..6), parts in 1..9_usize) {
            let mut sent = Vec::new();
            for chunk in &chunks {
                sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                sent.extend_from_slice(chunk);
                sent.extend_from_slice(b"\r\n");
            }
            sent.extend_from_slice(b"0\r\n\r\n");
            let parts: Vec<&[u8]> = sent.chunks(parts).collect();
            let (taken, ended) = read(Framing::Chunked, &parts);
            prop_assert_eq!(taken, chunks.concat());
            prop_assert!(ended.unwrap().is_complete());
        }

        #[test]
        fn any_bytes_are_accepted(bytes in vec(any::<u8>(), 0..200), hex in "[0-9a-f\r\n;]{0,40}") {
            let (taken, _) = read(Framing::Chunked, &[hex.as_bytes(), &bytes]);
            prop_assert!(taken.len() <= bytes.len() + hex.len());
        }
    }
}
