//! Polling interval for state without an event.

use std::{iter::repeat_n, time::Duration};

use tokio::time::sleep;

/// Intervals during the start of a container; the last one repeats.
const LOOKS_MS: [u64; 8] = [1, 1, 2, 2, 3, 5, 10, 25];

/// Intervals until the init process has executed the image's program: first short ones, then each second for two
/// minutes, because a signal waits for it and an exit is judged by it. A start may be held for longer, and is then looked
/// at every five seconds.
const EXECUTION_MS: [u64; 7] = [10, 10, 30, 100, 300, 500, 500];
const EXECUTION_SECONDS: usize = 120;
const HELD_LOOKS: usize = 128;

/// Pauses between looks whether the init process has executed the image's program, for as long as a start may be held.
/// Later the exit status must suffice.
pub(super) fn execution_pauses() -> impl Iterator<Item = Duration> {
    let seconds = repeat_n(1000, EXECUTION_SECONDS);
    let held = repeat_n(5000, HELD_LOOKS);
    let all = EXECUTION_MS.into_iter().chain(seconds).chain(held);
    all.map(Duration::from_millis)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_is_seen_within_a_second_for_two_minutes() {
        let mut age = Duration::ZERO;
        for pause in execution_pauses() {
            let is_early = age < Duration::from_secs(120);
            let most = Duration::from_secs(if is_early { 1 } else { 5 });
            assert!(pause <= most, "{pause:?} at {age:?}");
            age += pause;
        }
        // Longer than the longest deadline of a hold, and shorter than the wait of a signal for the program.
        assert!((600..900).contains(&age.as_secs()), "{age:?}");
    }
}
