//! Times of retries: the first is immediate. Later ones have growing delays while another process undoes the change.

use std::time::{Duration, Instant};

/// Delay between the first two attempts. Each further delay is twice as long, up to the second value.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// A change that lasted this long resets the delay.
const LASTING: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Backoff {
    tries: u32,
    last: Option<Instant>,
    due: Option<Instant>,
}

impl Backoff {
    /// The time of the next attempt. Further calls return the same until [`Backoff::tried`] or [`Backoff::rest`].
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

    /// Records an attempt, with or without success.
    pub fn tried(&mut self, now: Instant) {
        self.tries = self.tries.saturating_add(1);
        self.last = Some(now);
        self.due = None;
    }

    /// Ends the attempts: the change is in place.
    pub fn rest(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_until_a_change_lasts() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..11 {
            let due = backoff.due(now);
            assert_eq!(backoff.due(now + LASTING), due, "a second call");
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
