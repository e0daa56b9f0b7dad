//! Monotonic time as a value. The caller passes it in; this crate reads no clock.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A moment on the edge's monotonic clock, as the time since that clock's arbitrary start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Timestamp(Duration);

impl Timestamp {
    pub const fn new(since_start: Duration) -> Self {
        Self(since_start)
    }

    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this moment is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(earlier))
    }
}
