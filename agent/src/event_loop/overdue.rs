//! Detects events that the agent missed while it was stopped or got no processor time.

use std::time::{Duration, Instant};

use usher_core::{Event, base::time::Timestamp};

use super::NodeLoop;

/// A timer that fires this late was delayed. On an idle machine a timer has a tenth of this delay.
const LATE: Duration = Duration::from_millis(10);
/// The moment before a timer.
const BEFORE: Duration = Duration::from_nanos(1);
/// How many batches of events pass before overdue timers: those of the pods of a node. A flood of events does not stop the
/// timers.
const BATCHES: u16 = 512;

/// Postpones overdue timers: replies that arrived in time, and are still to be received, may stop them.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// Batches of events since the timers were due.
    batches: u16,
}

impl Overdue {
    /// Whether postponed timers have to run.
    fn is_pending(&self) -> bool {
        self.batches > 0
    }

    /// Whether postponed timers run after the next batch of events.
    pub(super) fn is_over(&self) -> bool {
        self.batches == BATCHES
    }

    /// Counts a batch of events. Returns whether the timers do not run after it. `is_late`: whether one of them is overdue.
    pub(super) fn postpone(&mut self, is_late: bool) -> bool {
        let postpones = (is_late || self.is_pending()) && !self.is_over();
        self.batches = match postpones {
            true => self.batches + 1,
            false => 0,
        };
        postpones
    }
}

impl NodeLoop {
    /// When [`Self::wake`] is due unless an event arrives before.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        if self.overdue.is_pending() {
            return Some(Instant::now());
        }
        let timer = self.engine.next_wake();
        let timer = timer.map(|at| self.started + at.since_start());
        timer.into_iter().chain(self.busy_requests_due()).min()
    }

    /// Runs the timers: no other event is ready.
    pub(super) fn wake(&mut self) {
        // After a stop of the agent timers fire before the runtime polls the sockets: epoll_wait(2) returns EINTR.
        if self.overdue.is_pending() {
            self.overdue.batches = BATCHES;
        }
        self.step(Event::Timer);
    }

    /// The time just before the engine's next timer, if that timer is overdue. The engine then receives the missed ends
    /// of containers with this time, and first, as if they had arrived in time.
    ///
    /// Otherwise the engine could report that an exited sidecar still runs, and try the next step on it. Other events
    /// have the time of their arrival: what they begin has its whole time limit.
    pub(super) fn late_since(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.engine.next_wake()?;
        // The engine has run all timers that were due before the last event, so this time is not before that event.
        (now.since(due) >= LATE).then(|| due - BEFORE)
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::new(self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_timers_are_postponed_until_the_limit() {
        let mut overdue = Overdue::default();
        assert!(!overdue.postpone(false));
        for _ in 0..2 {
            assert!(overdue.postpone(true));
            // The first of these events has moved the engine's time past the timer.
            let further = (0..u16::MAX).take_while(|_| overdue.postpone(false));
            assert_eq!(further.count(), usize::from(BATCHES) - 1);
        }
    }
}
