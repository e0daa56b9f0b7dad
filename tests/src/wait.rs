//! Waiting for what tells nobody when it changes: it is looked at again and again, and only a failure takes long.

use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

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
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(LOOK);
    }
}
