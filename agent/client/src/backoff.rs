//! Times of retries: the first is immediate. Later ones have growing delays while another process undoes the change.

use std::{
    future::pending,
    time::{Duration, Instant},
};

use crate::jitter;

/// Delay between the first two attempts. Each further delay is twice as long, up to the second value.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// A change that lasted this long resets the delay.
const LASTING: Duration = Duration::from_secs(60);

/// Waits until this time; without one, for ever.
pub async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}

#[derive(Debug, Default)]
pub struct Backoff {
    tries: u32,
    last: Option<Instant>,
    due: Option<Instant>,
    has_jitter: bool,
}

impl Backoff {
    /// For requests to a server that all nodes share: each delay is shorter by a random part of up to a half.
    pub fn with_jitter() -> Self {
        Self {
            has_jitter: true,
            ..Self::default()
        }
    }

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
        let delay = delay.min(LONGEST);
        let sooner = if self.has_jitter {
            jitter::up_to(delay / 2)
        } else {
            Duration::ZERO
        };
        let due = now + delay - sooner;
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

    #[test]
    fn jitter_shortens_delays_by_half_at_most() {
        let now = Instant::now();
        let waits: Vec<Duration> = (0..100)
            .map(|_| {
                let mut backoff = Backoff::with_jitter();
                assert_eq!(backoff.due(now), now);
                backoff.tried(now);
                backoff.due(now) - now
            })
            .collect();
        assert!(
            waits
                .iter()
                .all(|wait| (SHORTEST / 2..=SHORTEST).contains(wait))
        );
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }
}
