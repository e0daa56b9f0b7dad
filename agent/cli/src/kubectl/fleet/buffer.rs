//! The output of one node, in memory.

use std::io::{self, Write};

/// Buffers the output of a command until its node is next. Refuses more bytes than the limit.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    most: usize,
    pub(super) is_exceeded: bool,
}

impl Buffer {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            most,
            is_exceeded: false,
        }
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.bytes.len() {
            self.is_exceeded = true;
            let most = self.most;
            return Err(io::Error::other(format!(
                "more than {most} bytes of output"
            )));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_node_is_bounded() {
        let mut buffer = Buffer::new(4);
        buffer.write_all(b"abc").unwrap();
        buffer.write_all(b"d").unwrap();
        assert!(!buffer.is_exceeded);
        buffer.write_all(b"e").unwrap_err();
        assert!(buffer.is_exceeded);
        assert_eq!(buffer.bytes, b"abcd");
    }
}
