//! The time of the day. It may jump, so waits use [`std::time::Instant`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970-01-01T00:00:00Z; zero if the clock is before that.
pub fn since_epoch() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// The same in milliseconds.
pub fn now_ms() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}
