//! What is done about a finished pod: nothing, in observe mode a report of what
//! would be done, in enforce mode the next step with each of its sidecars.

mod exits;
pub(crate) mod ladder;
mod manual;
pub mod outcome;
mod permission;
mod stages;

use crate::{
    base::{id::ContainerKey, time::Timestamp},
    decision::{Decision, Kind, SkipReason, WaitReason},
    engine::action::Action,
    plan::{Plan, Sidecar},
    pod::{
        spec::{self, Pod},
        state::{RunState, Tracked},
    },
    recipe::step::Step,
    settings::{config::Ladder, mode::Mode},
};

/// A finished pod, and what counts for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished<'engine> {
    pub(crate) spec: &'engine Pod,
    pub(crate) plan: &'engine Plan,
    pub(crate) mode: Mode,
    pub(crate) timings: &'engine Ladder,
    /// When its last app container ended, where that was seen.
    pub(crate) at: Option<Timestamp>,
    pub(crate) now: Timestamp,
    /// A person insists: every step may be taken.
    pub(crate) force: bool,
}

/// What is still needed to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// How the containers of the pod ended.
    Codes,
}

/// Has everything made ready for the sidecars that run, while the apps still do.
pub(crate) fn prepare(tracked: &mut Tracked, plan: &Plan, actions: &mut Vec<Action>) {
    for sidecar in &plan.sidecars {
        let Some((id, run)) = tracked.newest(&sidecar.name) else {
            continue;
        };
        let first = sidecar.ladder.first();
        let asks = first.is_some_and(|rung| matches!(rung.step, Step::Request(_)));
        if run.state != RunState::Running || !asks {
            continue;
        }
        let id = id.clone();
        if tracked.quit.said.prepared.insert(id.clone()) {
            let pod = tracked.uid.clone();
            actions.push(Action::Prepare(ContainerKey { pod, id }));
        }
    }
}

impl Finished<'_> {
    /// Deals with the pod.
    pub(crate) fn deal(self, tracked: &mut Tracked, actions: &mut Vec<Action>) -> Need {
        if self.mode == Mode::Off {
            tracked.quit.reset();
            return Need::Nothing;
        }
        if !tracked.quit.said.finished && !self.anybody_left(tracked) {
            return Need::Nothing;
        }
        // When its sidecars have ended nobody is left alone: its phase says so soon, and often it is deleted then.
        let said = tracked.quit.said.left_alone;
        if let Some(reason) = self.left_alone()
            && (said || self.anybody_left(tracked))
        {
            tracked.quit.stop();
            tracked.quit.said.left_alone = true;
            if !said {
                actions.push(self.report(tracked, None, Kind::Skipped { reason }, self.now));
            }
            return Need::Nothing;
        }
        let sidecars = self.plan.sidecars.iter();
        let living: Vec<&Sidecar> = sidecars
            .filter(|sidecar| {
                let newest = tracked.newest(&sidecar.name);
                newest.is_some_and(|(_, run)| run.lives())
            })
            .collect();
        if !std::mem::replace(&mut tracked.quit.said.finished, true) {
            let sidecars = living.iter().map(|sidecar| sidecar.name.clone()).collect();
            let kind = Kind::PodFinished { sidecars };
            tracked.stance = None;
            actions.push(self.report(tracked, None, kind, self.now));
        }
        self.report_ended(tracked, actions);
        if self.waits(tracked, actions) {
            return Need::Nothing;
        }
        match self.mode {
            Mode::Off => Need::Nothing,
            Mode::Observe => {
                tracked.quit.stop();
                self.would_quit(tracked, &living, actions);
                Need::Nothing
            }
            Mode::Enforce => self.show_out(tracked, actions),
        }
    }

    /// Whether a sidecar lives, or may still be started.
    fn anybody_left(self, tracked: &Tracked) -> bool {
        let mut sidecars = self.plan.sidecars.iter();
        sidecars.any(|sidecar| self.is_left(tracked, sidecar))
    }

    fn is_left(self, tracked: &Tracked, sidecar: &Sidecar) -> bool {
        match tracked.newest(&sidecar.name) {
            Some((_id, run)) => run.lives(),
            None => self
                .spec
                .container(&sidecar.name)
                .and_then(|container| container.status.as_ref())
                .is_none_or(|status| !matches!(status.state, spec::RunState::Terminated(_))),
        }
    }

    /// Why its sidecars are not shown out although it is finished.
    pub(crate) fn left_alone(self) -> Option<SkipReason> {
        if self.spec.deleting {
            return Some(SkipReason::Deleting);
        }
        if let Some(reason) = self.spec.terminal.clone() {
            return Some(SkipReason::Terminal { reason });
        }
        (!self.plan.tuning.quit).then_some(SkipReason::OptedOut)
    }

    /// Whether the wait that was asked for is not over.
    fn waits(self, tracked: &mut Tracked, actions: &mut Vec<Action>) -> bool {
        let delay = self.plan.tuning.quit_delay;
        if delay.is_zero() {
            return false;
        }
        let begin = self.at.unwrap_or(self.now);
        if !tracked.quit.waits(self.now, begin, delay) {
            return false;
        }
        let kind = Kind::Waiting(WaitReason::QuitDelay { delay });
        if tracked.stance.as_ref() != Some(&kind) {
            tracked.stance = Some(kind.clone());
            actions.push(self.report(tracked, None, kind, self.now));
        }
        true
    }

    fn would_quit(self, tracked: &mut Tracked, living: &[&Sidecar], actions: &mut Vec<Action>) {
        for sidecar in living {
            let Some((id, _run)) = tracked.newest(&sidecar.name) else {
                continue;
            };
            let id = id.clone();
            let Some(rung) = sidecar.ladder.first() else {
                continue;
            };
            if tracked.quit.said.would_quit.insert(id) {
                let kind = Kind::WouldQuit {
                    recipe: sidecar.recipe.clone(),
                    step: rung.step.clone(),
                };
                actions.push(self.report(tracked, Some(&sidecar.name), kind, self.now));
            }
        }
    }

    pub(crate) fn report(
        self,
        tracked: &Tracked,
        container: Option<&str>,
        kind: Kind,
        when: Timestamp,
    ) -> Action {
        let since_exit = self.at.map(|at| when.since(at));
        report(tracked, Some(self.spec), container, kind, since_exit)
    }
}

/// A decision to record.
pub(crate) fn report(
    tracked: &Tracked,
    spec: Option<&Pod>,
    container: Option<&str>,
    kind: Kind,
    since_exit: Option<std::time::Duration>,
) -> Action {
    Action::Report(Decision {
        pod: tracked.uid.clone(),
        pod_name: spec.map_or_else(|| tracked.uid.to_string(), Pod::display_name),
        container: container.map(str::to_owned),
        kind,
        since_exit,
    })
}
