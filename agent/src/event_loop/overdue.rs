//! Detects events that the agent missed while it was stopped or got no processor time.

use std::time::Duration;

use usher_core::base::time::Timestamp;

use super::NodeLoop;

/// A timer that fires this late was delayed. On an idle machine a timer has a tenth of this delay.
const LATE: Duration = Duration::from_millis(10);
/// The moment before a timer.
const BEFORE: Duration = Duration::from_nanos(1);

impl NodeLoop {
    /// The time just before the engine's next timer, if that timer is overdue. The engine then receives the missed
    /// events with this time, exits first, as if they had arrived in time.
    ///
    /// Otherwise the order of simultaneous events is random: the engine could report that an exited sidecar still
    /// runs, and try the next step on it.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.engine.next_wake()?;
        // The engine has run all timers that were due before the last event, so this time is not before that event.
        (now.since(due) >= LATE).then(|| due - BEFORE)
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::new(self.started.elapsed())
    }
}
