//! Reports of sidecars that exited.

use super::{
    ladder::{Milestone, Quit},
    review::Termination,
};
use crate::{decision::Kind, engine::action::Action, pod::state::runs::RunState};

impl Termination<'_> {
    /// Reports the sidecars that exited since the pod finished.
    pub(super) fn report_exits(self, quit: &mut Quit, actions: &mut Vec<Action>) {
        self.report_matching_exits(quit, false, actions);
    }

    /// Reports the sidecars that exited after usher terminated them, even if the pod is not finished any more.
    pub(crate) fn report_requested_exits(self, quit: &mut Quit, actions: &mut Vec<Action>) {
        self.report_matching_exits(quit, true, actions);
    }

    fn report_matching_exits(
        self,
        quit: &mut Quit,
        only_requested: bool,
        actions: &mut Vec<Action>,
    ) {
        for sidecar in &self.view.plan.sidecars {
            let name = &sidecar.name;
            let Some((id, run)) = self.runs.newest(name) else {
                continue;
            };
            let RunState::Exited { at, status, .. } = run.state else {
                continue;
            };
            let requested = quit.is_requested(name, id);
            // A run that never started has not exited, unless usher kept it from starting.
            if run.not_started && !requested {
                continue;
            }
            // The exit often precedes the reply to the request. The cause of the exit is known when both have
            // arrived, and the exit status when the process is reaped.
            let milestone = Milestone::Exited(id.clone());
            if quit.reported.contains(&milestone)
                || !run.is_settled()
                || quit.in_flight(name, id)
                || (only_requested && !requested)
            {
                continue;
            }
            quit.ended(name, id);
            quit.reported.insert(milestone);
            let kind = Kind::SidecarEnded { requested, status };
            actions.push(self.report_at(Some(name), kind, at));
        }
    }
}
