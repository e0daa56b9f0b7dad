//! Termination that an operator requested.
//!
//! Mode, opt-out and delay do not apply. A step that makes the pod fail is taken only for a forced request. The
//! request covers the runs that existed when it was made, so it does not terminate a sidecar that has restarted
//! since.

use super::{
    ladder::{Milestone, OperatorQuit, Quit},
    permission::Permission,
    review::{Need, Termination},
};
use crate::{
    decision::{GaveUp, Kind},
    engine::{action::Action, request::Step},
    plan::Sidecar,
    pod::{completion, state::runs::Runs},
    recipe::Purpose,
};

impl Termination<'_> {
    /// Reviews an operator's request; None when it is complete.
    pub(crate) fn review_operator_quit(
        self,
        quit: &mut Quit,
        actions: &mut Vec<Action>,
    ) -> Option<Need> {
        let request = quit.operator.clone()?;
        self.report_exits(quit, actions);
        let ends_anyway = self.view.spec.deleting || self.view.spec.terminal.is_some();
        let unsettled: Vec<&Sidecar> = self
            .view
            .plan
            .sidecars
            .iter()
            .filter(|sidecar| is_unsettled(&request, self.runs, quit, &sidecar.name))
            .collect();
        if ends_anyway || unsettled.is_empty() {
            quit.operator = None;
            return None;
        }
        let left: Vec<&Sidecar> = unsettled
            .into_iter()
            .filter(|sidecar| self.runs.is_living(&sidecar.name))
            .collect();
        Some(self.run_stage(&left, quit, actions))
    }

    /// The first step that terminates a sidecar, or why there is none.
    pub(crate) fn first_step(self, sidecar: &Sidecar) -> Result<Step, GaveUp> {
        let app_failed = completion::has_failed(self.runs, &self.view.spec);
        let (step, permission) = self.first_permitted(sidecar, app_failed)?;
        let note = match permission {
            Permission::Unknown => Some(
                "only if an app ended with another code than 0, which usher requests from the kubelet"
                    .to_owned(),
            ),
            Permission::Granted | Permission::Denied(_) => self.forced(sidecar, app_failed),
        };
        let drains = step.purpose == Purpose::Drain;
        Ok(Step {
            container: sidecar.name.clone(),
            step: step.step.to_string(),
            exit_code: step.code.known(),
            note: note.or_else(|| drains.then(|| format!("it drains for {:?} first", step.takes))),
        })
    }

    /// The harm to the pod that only a forced request accepts.
    fn forced(self, sidecar: &Sidecar, app_failed: Option<bool>) -> Option<String> {
        let unforced = Self {
            force: false,
            ..self
        };
        let first = sidecar.ladder.first()?;
        match unforced.policy(sidecar, app_failed).permission(first) {
            Permission::Denied(reason) if self.force => {
                Some(format!("forced: {}", Kind::GaveUp { reason }.reason()))
            }
            _ => None,
        }
    }
}

/// Whether the requested run of a sidecar still has to be terminated or reported.
fn is_unsettled(request: &OperatorQuit, runs: &Runs, quit: &Quit, name: &str) -> bool {
    let Some((id, run)) = runs.newest(name) else {
        return false;
    };
    let is_reported = quit.reported.contains(&Milestone::Exited(id.clone()));
    // The escalation of a run that exited is over as well, but its exit has to be reported.
    let gave_up = run.lives() && quit.gave_up(name, id);
    request.runs.contains(id) && !is_reported && !gave_up
}
