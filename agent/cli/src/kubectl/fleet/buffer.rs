//! The output of one node, in memory.

use std::{
    cell::RefCell,
    io::{self, Write},
    rc::Rc,
};

/// Buffers the output of a command until its node is next. Refuses more bytes than the limit.
#[derive(Debug, Clone)]
pub(super) struct Shared(Rc<RefCell<Buffer>>);

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    most: usize,
    is_exceeded: bool,
}

impl Shared {
    pub(super) fn new(most: usize) -> Self {
        Self(Rc::new(RefCell::new(Buffer {
            bytes: Vec::new(),
            most,
            is_exceeded: false,
        })))
    }

    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().bytes)
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.0.borrow().is_exceeded
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut buffer = self.0.borrow_mut();
        if bytes.len() > buffer.most - buffer.bytes.len() {
            buffer.is_exceeded = true;
            let most = buffer.most;
            return Err(io::Error::other(format!(
                "more than {most} bytes of output"
            )));
        }
        buffer.bytes.extend_from_slice(bytes);
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
        let shared = Shared::new(4);
        let mut writer = shared.clone();
        writer.write_all(b"abc").unwrap();
        writer.write_all(b"d").unwrap();
        assert!(!shared.is_exceeded());
        writer.write_all(b"e").unwrap_err();
        assert!(shared.is_exceeded());
        assert_eq!(shared.take(), b"abcd");
    }
}
