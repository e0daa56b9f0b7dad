//! What an agent that was stopped, or got no time, has missed.

use std::time::Duration;

use usher_core::base::time::Timestamp;

use super::NodeLoop;

/// A timer that fires so much later was kept from it: on an idle machine it takes a tenth of that.
const LATE: Duration = Duration::from_millis(10);
/// The moment before a timer.
const BEFORE: Duration = Duration::from_nanos(1);

impl NodeLoop {
    /// Where a moment of the engine is overdue, the time just before it. What has come meanwhile is told with this time,
    /// the ends that nobody has told yet before all else, as if the engine had heard of it when it happened.
    ///
    /// With many things to hear of at once the order is chance, and "it runs on" would be said of a sidecar that has ended:
    /// a false Event, and the next step for nobody.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.engine.next_wake()?;
        // Not before the last event: what was due by then has been dealt with.
        (now.since(due) >= LATE).then(|| due - BEFORE)
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::new(self.begin.elapsed())
    }
}
