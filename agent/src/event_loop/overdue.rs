//! What an agent has missed that was stopped, or got no processor time.

use std::time::Duration;

use usher_core::base::time::Timestamp;

use super::NodeLoop;

/// A timer that fires this much later was delayed: on an idle machine it takes a tenth of that.
const LATE: Duration = Duration::from_millis(10);
/// The moment before a timer.
const BEFORE: Duration = Duration::from_nanos(1);

impl NodeLoop {
    /// Where the engine's next timer is overdue, the time just before it. The engine receives the events of the
    /// meantime with this time, the exits first, as if it had received them when they happened.
    ///
    /// With many events at once their order is chance. The engine would report "it runs on" of a sidecar that has
    /// ended, and try the next step on it.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.engine.next_wake()?;
        // Not before the last event: the engine has processed what was due by then.
        (now.since(due) >= LATE).then(|| due - BEFORE)
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::new(self.started.elapsed())
    }
}
