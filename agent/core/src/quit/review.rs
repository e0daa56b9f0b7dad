//! What to do about a finished pod: nothing, in observe mode a report of what enforce mode would do, in enforce mode the
//! next step with each sidecar of the earliest stage.

use super::{
    ladder::{Escalation, Milestone, Next, Quit, SidecarRun},
    permission::{Permission, StepPolicy},
};
use crate::{
    base::{id::ContainerKey, time::Timestamp},
    decision::{GaveUp, Kind, SkipReason, WaitReason},
    engine::{action::Action, kubelet_poll},
    plan::{Plan, Sidecar},
    pod::{
        completion, spec,
        state::runs::{RunState, Runs},
        view::PodView,
    },
    recipe::{LadderStep, step::Step},
    settings::mode::Mode,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Termination<'pod> {
    pub(crate) view: &'pod PodView,
    pub(crate) runs: &'pod Runs,
    /// An operator forces the request: every step is permitted.
    pub(crate) force: bool,
}

/// What the engine needs to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// The exit codes of the pod's containers.
    ExitCodes,
}

/// Why no further step follows with a sidecar now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepResult {
    Waits,
    ExitCodesNeeded,
    GaveUp(GaveUp),
}

/// Prepares the first request to each running sidecar while the apps still run.
pub(crate) fn prepare(view: &PodView, runs: &Runs, quit: &mut Quit, actions: &mut Vec<Action>) {
    let Plan { sidecars, .. } = &*view.plan;
    for sidecar in sidecars {
        let Some((id, run)) = runs.newest(&sidecar.name) else {
            continue;
        };
        let begins_with_request = sidecar
            .ladder
            .first()
            .is_some_and(|step| matches!(step.step, Step::Request(_)));
        if run.state == RunState::Running
            && begins_with_request
            && quit.reported.insert(Milestone::Prepared(id.clone()))
        {
            actions.push(Action::Prepare(ContainerKey {
                pod: view.uid.clone(),
                id: id.clone(),
            }));
        }
    }
}

/// Why usher does not terminate the sidecars of a finished pod.
pub(crate) fn skip_reasons(view: &PodView) -> impl Iterator<Item = SkipReason> {
    let PodView { spec, plan, .. } = view;
    let terminal = spec.terminal.clone();
    let reasons = [
        spec.deleting.then_some(SkipReason::Deleting),
        terminal.map(|reason| SkipReason::Terminal { reason }),
        (!plan.tuning.quit).then_some(SkipReason::OptedOut),
    ];
    reasons.into_iter().flatten()
}

impl Termination<'_> {
    /// Reviews a finished pod.
    pub(crate) fn review(self, quit: &mut Quit, actions: &mut Vec<Action>) -> Need {
        let mode = self.view.modes.quit;
        if mode == Mode::Off {
            quit.reset();
            return Need::Nothing;
        }
        if !quit.reported.contains(&Milestone::Finished) && !self.is_any_sidecar_left() {
            return Need::Nothing;
        }
        // Once its sidecars have ended, there is nothing to skip: the pod's phase changes soon, and often the pod is
        // deleted then.
        let left_alone = quit.reported.contains(&Milestone::Skipped);
        if let Some(reason) = self.left_alone()
            && (left_alone || self.is_any_sidecar_left())
        {
            quit.stop();
            if quit.reported.insert(Milestone::Skipped) {
                actions.push(self.report(None, Kind::Skipped { reason }));
            }
            return Need::Nothing;
        }
        if quit.reported.insert(Milestone::Finished) {
            let sidecars = self.view.living_sidecars(self.runs);
            let sidecars = sidecars.map(|sidecar| sidecar.name.clone()).collect();
            quit.reported.last_decision = None;
            actions.push(self.report(None, Kind::PodFinished { sidecars }));
        }
        // The kubelet has not restarted the app after all.
        let last = &mut quit.reported.last_decision;
        last.take_if(|last| matches!(last, Kind::Waiting(WaitReason::KubeletMayRestart { .. })));
        self.report_exits(quit, actions);
        if self.is_delayed(quit, actions) {
            return Need::Nothing;
        }
        match mode {
            Mode::Off => Need::Nothing,
            Mode::Observe => {
                quit.stop();
                self.report_observed(quit, actions)
            }
            Mode::Enforce => {
                if completion::has_failed(self.runs, &self.view.spec) == Some(true)
                    && quit.reported.insert(Milestone::AppFailed)
                {
                    quit.retry_skipped(self.view.now);
                }
                let left: Vec<&Sidecar> = self
                    .view
                    .plan
                    .sidecars
                    .iter()
                    .filter(|sidecar| {
                        let newest = self.runs.newest(&sidecar.name);
                        let gave_up = newest.is_some_and(|(id, _)| quit.gave_up(&sidecar.name, id));
                        !gave_up && self.is_left(sidecar)
                    })
                    .collect();
                self.run_stage(&left, quit, actions)
            }
        }
    }

    /// Takes the next step with each sidecar of the earliest stage. Where no step is left for this stage, the next
    /// one follows at once, because the next event may arrive much later.
    pub(super) fn run_stage(
        self,
        left: &[&Sidecar],
        quit: &mut Quit,
        actions: &mut Vec<Action>,
    ) -> Need {
        let runs = self.runs;
        let Some(stage) = left.iter().map(|sidecar| sidecar.stage).min() else {
            return Need::Nothing;
        };
        let app_failed = self.app_failed();
        let (mut need, mut given_up) = (Need::Nothing, Vec::new());
        for sidecar in left.iter().filter(|sidecar| sidecar.stage == stage) {
            let Some((id, run)) = runs.newest(&sidecar.name) else {
                // The sidecar may be one of the unnamed runs that ended.
                if runs.has_unnamed_end() {
                    need = Need::ExitCodes;
                }
                continue;
            };
            if run.state != RunState::Running {
                continue;
            }
            let candidate = SidecarRun::new(
                sidecar,
                (id, run),
                &sidecar.ladder,
                &self.view.config.ladder,
            );
            let (escalation, restarts_too_often) = quit.escalation(self.view.now, candidate);
            if restarts_too_often {
                let reason = GaveUp::ComesBack;
                actions.push(self.report(Some(&sidecar.name), Kind::GaveUp { reason }));
            }
            match self.take_steps(sidecar, candidate, escalation, app_failed, actions) {
                StepResult::Waits => {}
                StepResult::ExitCodesNeeded => need = Need::ExitCodes,
                StepResult::GaveUp(reason) => {
                    given_up.push(&sidecar.name);
                    actions.push(self.report(Some(&sidecar.name), Kind::GaveUp { reason }));
                }
            }
        }
        if given_up.is_empty() {
            return need;
        }
        let rest = left.iter().copied();
        let rest: Vec<_> = rest
            .filter(|sidecar| !given_up.contains(&&sidecar.name))
            .collect();
        match self.run_stage(&rest, quit, actions) {
            Need::Nothing => need,
            Need::ExitCodes => Need::ExitCodes,
        }
    }

    /// Takes the steps with one sidecar that are due.
    pub(super) fn take_steps(
        self,
        sidecar: &Sidecar,
        candidate: SidecarRun<'_>,
        escalation: &mut Escalation,
        app_failed: Option<bool>,
        actions: &mut Vec<Action>,
    ) -> StepResult {
        let view = self.view;
        let policy = self.policy(sidecar, app_failed);
        loop {
            match escalation.next(view.now, candidate, policy) {
                Next::Nothing => return StepResult::Waits,
                Next::ExitCodesNeeded => return StepResult::ExitCodesNeeded,
                Next::GaveUp(reason) => return StepResult::GaveUp(reason),
                Next::Attempt(step) => actions.push(Action::Attempt {
                    key: ContainerKey {
                        pod: view.uid.clone(),
                        id: candidate.id.clone(),
                    },
                    step,
                    timeout: view.config.ladder.attempt,
                }),
                Next::Failed {
                    step,
                    outcome,
                    next,
                } => {
                    let kind = Kind::StepFailed {
                        recipe: sidecar.recipe.clone(),
                        step,
                        outcome,
                        next,
                    };
                    actions.push(self.report(Some(&sidecar.name), kind));
                }
            }
        }
    }

    /// Whether an app has failed; None while the kubelet may still report the exit code. A code that it will never report
    /// does not permit a step that makes the pod fail.
    fn app_failed(self) -> Option<bool> {
        let is_final = kubelet_poll::backoff(self.view.unhelpful_answers).is_none();
        completion::has_failed(self.runs, &self.view.spec).or(is_final.then_some(false))
    }

    pub(crate) fn policy(self, sidecar: &Sidecar, app_failed: Option<bool>) -> StepPolicy<'_> {
        StepPolicy {
            sidecar,
            app_failed,
            force: self.force,
            may_fail_pod: self.view.plan.tuning.allow_pod_failure,
        }
    }

    /// Whether a sidecar runs, or may still be started.
    fn is_any_sidecar_left(self) -> bool {
        let mut sidecars = self.view.plan.sidecars.iter();
        sidecars.any(|sidecar| self.is_left(sidecar))
    }

    fn is_left(self, sidecar: &Sidecar) -> bool {
        match self.runs.newest(&sidecar.name) {
            Some((_id, run)) => run.lives(),
            None => self
                .view
                .spec
                .container(&sidecar.name)
                .and_then(|container| container.status.as_ref())
                .is_none_or(|status| !matches!(status.state, spec::RunState::Terminated(_))),
        }
    }

    /// Why usher does not terminate the sidecars of the finished pod.
    pub(crate) fn left_alone(self) -> Option<SkipReason> {
        skip_reasons(self.view).next()
    }

    /// Whether the configured delay after the last app's exit has not passed.
    pub(super) fn is_delayed(self, quit: &mut Quit, actions: &mut Vec<Action>) -> bool {
        let now = self.view.now;
        let delay = self.view.plan.tuning.quit_delay;
        let exit = self.view.last_app_end.unwrap_or(now);
        if delay.is_zero() || !quit.is_delayed(now, exit, delay) {
            return false;
        }
        let kind = Kind::Waiting(WaitReason::QuitDelay { delay });
        if quit.reported.last_decision.as_ref() != Some(&kind) {
            quit.reported.last_decision = Some(kind.clone());
            actions.push(self.report(None, kind));
        }
        true
    }

    fn report_observed(self, quit: &mut Quit, actions: &mut Vec<Action>) -> Need {
        let mut need = Need::Nothing;
        for sidecar in self.view.living_sidecars(self.runs) {
            let Some((id, _run)) = self.runs.newest(&sidecar.name) else {
                continue;
            };
            let first = self.first_permitted(sidecar, self.app_failed());
            if let Ok((_first, Permission::Unknown)) = first {
                need = Need::ExitCodes;
            } else if quit.reported.insert(Milestone::WouldQuit(id.clone())) {
                let kind = match first {
                    Ok((first, _permission)) => Kind::WouldQuit {
                        recipe: sidecar.recipe.clone(),
                        step: first.step.clone(),
                    },
                    // Enforce takes no step either.
                    Err(reason) => Kind::GaveUp { reason },
                };
                actions.push(self.report(Some(&sidecar.name), kind));
            }
        }
        need
    }

    /// The first step that is not denied, or why there is none.
    pub(super) fn first_permitted(
        self,
        sidecar: &Sidecar,
        app_failed: Option<bool>,
    ) -> Result<(&LadderStep, Permission), GaveUp> {
        let policy = self.policy(sidecar, app_failed);
        let mut first_denied = None;
        for step in &sidecar.ladder {
            match policy.permission(step) {
                Permission::Denied(why) => first_denied = first_denied.or(Some(why)),
                permission => return Ok((step, permission)),
            }
        }
        Err(first_denied.unwrap_or(GaveUp::StillRuns))
    }

    pub(crate) fn report(self, container: Option<&str>, kind: Kind) -> Action {
        self.report_at(container, kind, self.view.now)
    }

    pub(super) fn report_at(self, container: Option<&str>, kind: Kind, at: Timestamp) -> Action {
        self.view.report_since_exit(container, kind, at)
    }
}
