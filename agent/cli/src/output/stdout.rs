//! Standard output. A reader that closes the pipe, as `head` does, is not an error. Any other failed write is reported, so
//! that an incomplete output does not look complete.

use std::io::{self, ErrorKind, Write};

use crate::{failure::Failure, global::Exit};

/// Writes and flushes a text.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The same for a command without other output; a closed pipe is not an error.
pub(crate) fn put(text: &str) -> Result<(), Failure> {
    match write(text) {
        Err(closed) if closed.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| unwritable(&error)),
    }
}

/// The error of an incomplete output.
pub(crate) fn unwritable(error: &io::Error) -> Failure {
    let text = format!("incomplete output: cannot write to standard output: {error}");
    Failure::new(Exit::Problem, text)
}
