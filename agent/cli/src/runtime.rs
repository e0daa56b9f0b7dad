//! The asynchronous runtime of a command.

use std::io;

/// A runtime on the current thread.
pub(crate) fn new() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
