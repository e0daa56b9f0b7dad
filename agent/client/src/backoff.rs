//! When the next write may be: at once where all was well, later and later where somebody undoes it.

use std::time::{Duration, Instant};

/// Between the first write and the second; doubled from then on.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// What stood for this long was not undone by somebody who does so again and again.
const LASTING: Duration = Duration::from_secs(60);

/// The times of writes.
#[derive(Debug, Default)]
pub struct Backoff {
    /// Writes in this row.
    tries: u32,
    last: Option<Instant>,
    due: Option<Instant>,
}

impl Backoff {
    /// When the write may be that is needed since now, or since it was asked for first.
    pub fn due(&mut self, now: Instant) -> Instant {
        if let Some(due) = self.due {
            return due;
        }
        if self.last.is_some_and(|last| now >= last + LASTING) {
            self.tries = 0;
        }
        let delay = match self.tries.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => SHORTEST.saturating_mul(1 << doublings.min(8)),
        };
        let due = now + delay.min(LONGEST);
        self.due = Some(due);
        due
    }

    /// It was tried, with or without success.
    pub fn tried(&mut self, now: Instant) {
        self.tries = self.tries.saturating_add(1);
        self.last = Some(now);
        self.due = None;
    }

    /// Nothing is needed any more.
    pub fn rest(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_and_longer_until_it_lasts() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..11 {
            let due = backoff.due(now);
            assert_eq!(backoff.due(now + LASTING), due, "asked for once");
            waits.push((due - now).as_millis());
            now = due;
            backoff.tried(now);
        }
        assert_eq!(
            waits,
            [
                0, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000
            ]
        );
        assert_eq!(backoff.due(now + LASTING), now + LASTING);
        backoff.rest();
        let soon = now + LASTING / 2;
        backoff.tried(now);
        assert!(backoff.due(soon) > soon);
    }
}
