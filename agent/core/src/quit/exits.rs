//! Telling of sidecars that ended.

use super::Finished;
use crate::{
    decision::Kind,
    engine::action::Action,
    pod::state::{RunState, Tracked},
};

impl Finished<'_> {
    /// Reports sidecars that ended since the pod was finished.
    pub(super) fn report_ended(self, tracked: &mut Tracked, actions: &mut Vec<Action>) {
        self.report_some(tracked, |_asked| true, actions);
    }

    /// Reports sidecars that ended and had been asked to: whatever the pod turned out to be since, usher did it.
    pub(crate) fn report_asked(self, tracked: &mut Tracked, actions: &mut Vec<Action>) {
        self.report_some(tracked, |asked| asked, actions);
    }

    fn report_some(
        self,
        tracked: &mut Tracked,
        counts: impl Fn(bool) -> bool,
        actions: &mut Vec<Action>,
    ) {
        for sidecar in &self.plan.sidecars {
            let name = &sidecar.name;
            let Some((id, run)) = tracked.newest(name) else {
                continue;
            };
            let RunState::Exited { at, status, .. } = run.state else {
                continue;
            };
            let asked = tracked.quit.asked(name, id);
            // What never began has not ended; whoever was asked had begun, or was kept from it.
            if run.not_started && !asked {
                continue;
            }
            let id = id.clone();
            let settled = run.is_settled();
            // Often the end overtakes the answer that it was asked for with;
            // which of the two came about is known when both are there. How it
            // ended is known when it has been reaped.
            let said = tracked.quit.said.ended.contains(&id);
            if said || !settled || tracked.quit.in_flight(name, &id) {
                continue;
            }
            if !counts(asked) {
                continue;
            }
            tracked.quit.ended(name, &id);
            tracked.quit.said.ended.insert(id);
            let kind = Kind::SidecarEnded { asked, status };
            actions.push(self.report(tracked, Some(name), kind, at));
        }
    }
}
