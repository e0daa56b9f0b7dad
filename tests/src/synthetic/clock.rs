//! The clock that all processes of a test share.
//!
//! `CLOCK_MONOTONIC`
//! ([clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html))
//! is the same in every process of a machine, so a stamp taken in one pod can
//! be subtracted from a stamp taken in another. `std::time::Instant` reads the
//! same clock, but does not expose the number.

use nix::time::{ClockId, clock_gettime};

use crate::wait::{found_within, patience};

/// Waits until the condition is true.
///
/// # Panics
///
/// After a timeout.
pub fn eventually(what: &str, so: impl Fn() -> bool) {
    found_within(patience(), what, || so().then_some(()));
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock");
    let seconds = u64::try_from(now.tv_sec()).expect("it began at boot");
    let nanoseconds = u64::try_from(now.tv_nsec()).expect("below one second");
    seconds * 1_000_000_000 + nanoseconds
}
