//! Standard output. Who stops reading, as `head` does, has what it wanted; anything else that keeps an answer from being
//! written, such as a full disk, is said: half an answer must not look like a whole one.

use std::io::{self, ErrorKind, Write};

use crate::{failure::Failure, global::Exit};

/// Writes a text and hands it over.
///
/// # Errors
/// When it cannot be written, or nobody reads any more.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The same for whoever has nothing else to do once nobody reads.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn put(text: &str) -> Result<(), Failure> {
    match write(text) {
        Err(unread) if unread.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| unwritable(&error)),
    }
}

/// What is said where something cannot be written.
pub(crate) fn unwritable(error: &io::Error) -> Failure {
    let text = format!("not all of the answer is there: it cannot be written: {error}");
    Failure::new(Exit::Problem, text)
}
