//! Limits of a capture, and why it ended.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) count: Option<u64>,
    /// Size of the file in bytes.
    pub(super) size: Option<u64>,
    pub(super) duration: Duration,
}

#[derive(Debug)]
pub(super) enum Ended {
    Count,
    Size,
    Duration,
    /// SIGINT or SIGTERM was received.
    Signal,
    ReaderClosed,
    /// The output cannot be written.
    Unwritable(std::io::Error),
    Broken(usher_sys::net::packet::Error),
}

impl Ended {
    /// Whether to write the packets that the kernel has already counted.
    pub(super) fn wants_the_rest(&self) -> bool {
        matches!(self, Self::Duration | Self::Signal)
    }
}
