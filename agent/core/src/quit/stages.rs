//! The next steps with the sidecars of a finished pod, those of the earliest stage first.

use super::{Finished, Need};
use crate::{
    base::id::ContainerKey,
    decision::Kind,
    engine::{action::Action, kubelet_poll},
    plan::Sidecar,
    pod::{
        completion,
        state::{RunState, Tracked},
    },
    quit::ladder::{Candidate, Next},
    recipe::Rung,
};

impl Finished<'_> {
    /// Takes the next steps with the sidecars whose turn it is.
    pub(super) fn show_out(self, tracked: &mut Tracked, actions: &mut Vec<Action>) -> Need {
        let failed = completion::has_failed(tracked, self.spec) == Some(true);
        if failed && !std::mem::replace(&mut tracked.quit.said.failed, true) {
            tracked.quit.take_up(self.now);
        }
        let sidecars = self.plan.sidecars.iter();
        let left: Vec<&Sidecar> = sidecars
            .filter(|sidecar| {
                let newest = tracked.newest(&sidecar.name);
                let gave_up = newest.is_some_and(|(id, _)| tracked.quit.gave_up(&sidecar.name, id));
                !gave_up && self.is_left(tracked, sidecar)
            })
            .collect();
        self.take_turns(tracked, &left, actions)
    }

    /// Takes the next steps with those of the earliest stage.
    pub(super) fn take_turns(
        self,
        tracked: &mut Tracked,
        left: &[&Sidecar],
        actions: &mut Vec<Action>,
    ) -> Need {
        let Some(turn) = left.iter().map(|sidecar| sidecar.order).min() else {
            return Need::Nothing;
        };
        let mut need = Need::Nothing;
        for sidecar in left.iter().filter(|sidecar| sidecar.order == turn) {
            if self.take_steps(tracked, sidecar, actions) == Need::Codes {
                need = Need::Codes;
            }
        }
        need
    }

    fn take_steps(
        self,
        tracked: &mut Tracked,
        sidecar: &Sidecar,
        actions: &mut Vec<Action>,
    ) -> Need {
        let Some((id, run)) = tracked.newest(&sidecar.name) else {
            // It may have been one of those that ended before anybody could
            // tell which container they were.
            return if tracked.has_nameless_end() {
                Need::Codes
            } else {
                Need::Nothing
            };
        };
        if run.state != RunState::Running {
            return Need::Nothing;
        }
        let (id, since) = (id.clone(), run.since);
        let failed = completion::has_failed(tracked, self.spec);
        // What nobody will tell any more does not allow to spoil the pod.
        let in_vain = kubelet_poll::patience(tracked.vain_answers).is_none();
        let failed = failed.or(in_vain.then_some(false));
        let candidate = Candidate {
            name: &sidecar.name,
            run: &id,
            since,
            ladder: &sidecar.ladder,
            timings: self.timings,
        };
        loop {
            let permission = |rung: &Rung| self.permission(sidecar, rung, failed);
            let kind = match tracked.quit.next(self.now, candidate, permission) {
                Next::Nothing => return Need::Nothing,
                Next::Ask => return Need::Codes,
                Next::Attempt(step) => {
                    actions.push(Action::Attempt {
                        key: ContainerKey {
                            pod: tracked.uid.clone(),
                            id: id.clone(),
                        },
                        step,
                        timeout: self.timings.attempt,
                    });
                    continue;
                }
                Next::Failed {
                    step,
                    outcome,
                    next,
                } => Kind::StepFailed {
                    recipe: sidecar.recipe.clone(),
                    step,
                    outcome,
                    next,
                },
                Next::GaveUp(reason) => Kind::GaveUp { reason },
            };
            actions.push(self.report(tracked, Some(&sidecar.name), kind, self.now));
        }
    }
}
