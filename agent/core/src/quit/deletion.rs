//! Terminating the sidecars of a pod that is being deleted, once its last app has ended.
//!
//! The kubelet sends SIGTERM to all containers of the pod at the same time, and a mesh proxy delays its own exit
//! whether an app still needs it or not. usher does not change the pod's phase and exit codes: it acts only on pods
//! with restartPolicy Always, with the steps that a recipe has for a sidecar after SIGTERM
//! ([`crate::recipe::AfterTerm`]).

use super::{
    ladder::{Milestone, Quit, SidecarRun},
    review::{StepResult, Termination},
};
use crate::{
    decision::{Kind, LeftToKubelet},
    engine::action::Action,
    plan::{Plan, Sidecar},
    pod::{restart_policy::RestartPolicy, spec::Pod, state::runs::RunState, view::PodView},
    recipe::LadderStep,
    settings::mode::Mode,
};

/// The steps that usher takes with a sidecar when its pod is deleted, or why there is none.
pub(crate) fn ladder<'view>(
    view: &'view PodView,
    sidecar: &'view Sidecar,
) -> Result<&'view [LadderStep], LeftToKubelet> {
    permits(&view.spec, &view.plan)?;
    sidecar.after_term.as_deref().map_err(Clone::clone)
}

/// Whether usher may terminate sidecars of this pod when it is deleted.
fn permits(spec: &Pod, plan: &Plan) -> Result<(), LeftToKubelet> {
    if !plan.tuning.quit {
        return Err(LeftToKubelet::OptedOut);
    }
    if spec.host_network {
        return Err(LeftToKubelet::HostNetwork);
    }
    let policies = spec.containers.iter();
    let policies = policies.map(|container| spec.policy_of(container));
    if let Some(policy) = [spec.restart_policy]
        .into_iter()
        .chain(policies)
        .find(|policy| *policy != RestartPolicy::Always)
    {
        return Err(LeftToKubelet::RestartPolicy { policy });
    }
    let mut containers = spec.containers.iter();
    match containers.find(|container| !container.restart_rules.is_empty()) {
        Some(container) => Err(LeftToKubelet::RestartRules {
            container: container.name.clone(),
        }),
        None => Ok(()),
    }
}

impl Termination<'_> {
    /// Whether a running sidecar would be terminated if the pod turned out to be deleted.
    pub(crate) fn acts_on_deletion(self) -> bool {
        let mut sidecars = self.view.living_sidecars(self.runs);
        sidecars.any(|sidecar| ladder(self.view, sidecar).is_ok())
    }

    /// Reviews a deleted pod whose apps have all ended.
    pub(crate) fn review_deletion(self, quit: &mut Quit, actions: &mut Vec<Action>) {
        let Self { view, runs, .. } = self;
        self.report_requested_exits(quit, actions);
        if view.living_sidecars(runs).next().is_none() {
            return;
        }
        if let Err(reason) = permits(&view.spec, &view.plan) {
            quit.stop();
            if quit.reported.insert(Milestone::PodLeftToKubelet) {
                actions.push(self.report(None, Kind::LeftToKubelet(reason)));
            }
            return;
        }
        self.report_left(quit, actions);
        if !self.acts_on_deletion() || self.is_delayed(quit, actions) {
            return;
        }
        match view.modes.quit {
            Mode::Off => {}
            Mode::Observe => {
                quit.stop();
                self.report_would_quit(quit, actions);
            }
            Mode::Enforce => self.quit_on_deletion(quit, actions),
        }
    }

    fn quit_on_deletion(self, quit: &mut Quit, actions: &mut Vec<Action>) {
        let Self { view, runs, .. } = self;
        let sidecars: Vec<(&Sidecar, &[LadderStep])> = view
            .living_sidecars(runs)
            .filter_map(|sidecar| Some((sidecar, ladder(view, sidecar).ok()?)))
            .collect();
        if quit.reported.insert(Milestone::QuitOnDeletion) {
            let names = sidecars.iter().map(|(sidecar, _)| sidecar.name.clone());
            let sidecars = names.collect();
            actions.push(self.report(None, Kind::QuitOnDeletion { sidecars }));
        }
        for (sidecar, ladder) in sidecars {
            if !view.is_needed(sidecar, runs) {
                self.take_step(sidecar, ladder, quit, actions);
            }
        }
    }

    fn take_step(
        self,
        sidecar: &Sidecar,
        ladder: &[LadderStep],
        quit: &mut Quit,
        actions: &mut Vec<Action>,
    ) {
        let Self { view, runs, .. } = self;
        let Some((id, run)) = runs.newest(&sidecar.name) else {
            return;
        };
        if run.state != RunState::Running {
            return;
        }
        let candidate = SidecarRun::new(sidecar, (id, run), ladder, &view.config.ladder);
        let (escalation, _restarts_too_often) = quit.escalation(view.now, candidate);
        let progress = self.take_steps(sidecar, candidate, escalation, None, actions);
        if matches!(progress, StepResult::GaveUp(_)) {
            let kind = Kind::LeftToKubelet(LeftToKubelet::StillRuns);
            actions.push(self.report(Some(&sidecar.name), kind));
            quit.reported.insert(Milestone::LeftToKubelet(id.clone()));
        }
    }

    /// Reports the sidecars that are left to the kubelet.
    fn report_left(self, quit: &mut Quit, actions: &mut Vec<Action>) {
        for sidecar in self.view.living_sidecars(self.runs) {
            let (Some((id, _run)), Err(reason)) =
                (self.runs.newest(&sidecar.name), &sidecar.after_term)
            else {
                continue;
            };
            if quit.reported.insert(Milestone::LeftToKubelet(id.clone())) {
                let kind = Kind::LeftToKubelet(reason.clone());
                actions.push(self.report(Some(&sidecar.name), kind));
            }
        }
    }

    fn report_would_quit(self, quit: &mut Quit, actions: &mut Vec<Action>) {
        for sidecar in self.view.living_sidecars(self.runs) {
            let (Some((id, _run)), Ok([first, ..])) =
                (self.runs.newest(&sidecar.name), ladder(self.view, sidecar))
            else {
                continue;
            };
            if quit.reported.insert(Milestone::WouldQuit(id.clone())) {
                let kind = Kind::WouldQuitOnDeletion {
                    recipe: sidecar.recipe.clone(),
                    step: first.step.clone(),
                };
                actions.push(self.report(Some(&sidecar.name), kind));
            }
        }
    }
}
