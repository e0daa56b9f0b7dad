//! Connections that a hold of connections or of stop signals would have kept, in observe mode.

use crate::decision::Kind;

/// What the decisions of one pod count in one step, or those of a Namespace in all steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Connections {
    pub(crate) refused: u64,
    pub(crate) open_at_stop: u64,
    pub(crate) after_stop: u64,
}

impl Connections {
    /// Adds what a decision reports. The decisions are those of one pod in one step.
    pub(crate) fn count(&mut self, kind: &Kind) {
        match kind {
            Kind::WouldHold { tally, .. } => {
                let refused = u64::try_from(tally.connections).unwrap_or(u64::MAX);
                self.refused = self.refused.saturating_add(refused);
            }
            // Each sidecar reports the open connections of its whole pod.
            Kind::WouldLinger { connections, .. } => {
                self.open_at_stop = self.open_at_stop.max(connections.unwrap_or_default());
            }
            Kind::WouldPreStop { connections, .. } => {
                self.after_stop = self.after_stop.saturating_add(*connections);
            }
            _ => {}
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.refused = self.refused.saturating_add(other.refused);
        self.open_at_stop = self.open_at_stop.saturating_add(other.open_at_stop);
        self.after_stop = self.after_stop.saturating_add(other.after_stop);
    }
}
