//! Waiting for conditions without a notification: they are polled, and only a failure takes long.

use std::num::NonZero;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Names how many times as long a machine needs that is far slower than others.
pub const FACTOR_VARIABLE: &str = "USHER_TEST_PATIENCE";
/// Far more than a loaded machine needs.
const ENOUGH: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// How long a test waits before it gives up.
///
/// # Panics
///
/// As [`slower`].
pub fn patience() -> Duration {
    slower(ENOUGH)
}

/// What takes so long elsewhere, on this machine.
///
/// # Panics
///
/// When [`FACTOR_VARIABLE`] is no whole number, or 0.
pub fn slower(elsewhere: Duration) -> Duration {
    elsewhere * factor()
}

/// How many of a crowd this machine has the time for; never none.
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

/// What `check` finds in the end.
///
/// # Panics
///
/// When it finds nothing within `limit`.
pub fn found_within<T>(limit: Duration, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < end, "timed out waiting for {what}");
        std::thread::sleep(LOOK);
    }
}
