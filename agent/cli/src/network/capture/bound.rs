//! When a capture ends.

use std::time::Duration;

/// What there is at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) count: Option<u64>,
    /// Of the file.
    pub(super) size: Option<u64>,
    pub(super) duration: Duration,
}

/// Why a capture ended.
#[derive(Debug)]
pub(super) enum Ended {
    Count,
    Size,
    Duration,
    /// A signal came.
    Told,
    /// Nobody reads any more.
    Unread,
    /// It could not be written.
    Unwritable(std::io::Error),
    /// The kernel gave no more.
    Broken(usher_sys::net::packet::Error),
}

impl Ended {
    /// Whether packets that are on their way are still wanted.
    pub(super) fn wants_the_rest(&self) -> bool {
        matches!(self, Self::Duration | Self::Told)
    }
}
