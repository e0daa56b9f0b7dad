//! Polling interval for state without an event.

use std::time::Duration;

use tokio::time::sleep;

/// Intervals during the start of a container; the last one repeats.
const LOOKS_MS: [u64; 8] = [1, 1, 2, 2, 3, 5, 10, 25];

#[derive(Debug, Default)]
pub(super) struct Looks {
    count: usize,
    /// The time waited so far.
    pub(super) passed: Duration,
}

impl Looks {
    /// Waits for the next poll.
    pub(super) async fn wait(&mut self) {
        let last = LOOKS_MS.len() - 1;
        let wait = Duration::from_millis(LOOKS_MS[self.count.min(last)]);
        self.count += 1;
        self.passed += wait;
        sleep(wait).await;
    }
}
