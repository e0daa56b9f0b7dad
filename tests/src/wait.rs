//! Waiting for conditions without a notification: they are polled, and only a failure takes long.

use std::num::NonZero;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The factor by which this machine is slower than others.
pub const FACTOR_VARIABLE: &str = "USHER_TEST_PATIENCE";
/// Far more than a loaded machine needs.
const ENOUGH: Duration = Duration::from_secs(120);

/// The limits of the polling interval.
const LOOK: Duration = Duration::from_millis(20);
const SLOW_LOOK: Duration = Duration::from_millis(250);

/// The timeout of a test.
///
/// # Panics
///
/// As [`slower`].
pub fn patience() -> Duration {
    slower(ENOUGH)
}

/// A duration on a normal machine, scaled for this machine.
///
/// # Panics
///
/// If [`FACTOR_VARIABLE`] is not a whole number, or 0.
pub fn slower(elsewhere: Duration) -> Duration {
    elsewhere * factor()
}

/// The size of a crowd that this machine can handle in time; never 0.
///
/// # Panics
///
/// As [`slower`].
pub fn fewer(elsewhere: usize) -> usize {
    elsewhere.div_ceil(factor() as usize)
}

fn factor() -> u32 {
    static FACTOR: LazyLock<NonZero<u32>> = LazyLock::new(|| {
        let factor = std::env::var(FACTOR_VARIABLE);
        factor.map_or(NonZero::<u32>::MIN, |factor| {
            factor
                .parse()
                .expect("USHER_TEST_PATIENCE is a number above 0")
        })
    });
    FACTOR.get()
}

/// Polls `check` until it returns a value.
///
/// # Panics
///
/// If it returns none within `limit`.
pub fn found_within<T>(limit: Duration, what: &str, check: impl FnMut() -> Option<T>) -> T {
    poll_within(limit, check).unwrap_or_else(|| panic!("timed out waiting for {what}"))
}

/// The same, or None if it returns none within `limit`, for a test that has more to report then.
pub fn poll_within<T>(limit: Duration, mut check: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        let begun = Instant::now();
        let found = check();
        if found.is_some() || Instant::now() >= end {
            return found;
        }
        // A command such as kubectl would keep a processor busy.
        std::thread::sleep(begun.elapsed().clamp(LOOK, SLOW_LOOK));
    }
}
