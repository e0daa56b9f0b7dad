//! How often something is looked at that offers no event.

use std::time::Duration;

use tokio::time::sleep;

/// Waits between two looks while a container is being started; the last one
/// repeats.
const LOOKS_MS: [u64; 8] = [1, 1, 2, 2, 3, 5, 10, 25];

/// The pace at which something is looked at that offers no event.
#[derive(Debug, Default)]
pub(super) struct Looks {
    count: usize,
    /// What was waited for.
    pub(super) passed: Duration,
}

impl Looks {
    /// Until the next look.
    pub(super) async fn wait(&mut self) {
        let last = LOOKS_MS.len() - 1;
        let wait = Duration::from_millis(LOOKS_MS[self.count.min(last)]);
        self.count += 1;
        self.passed += wait;
        sleep(wait).await;
    }
}
