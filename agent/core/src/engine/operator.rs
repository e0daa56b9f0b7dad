//! Requests of operators.

mod hold;

use std::collections::BTreeSet;

use super::Engine;
use crate::{
    base::{
        id::{ContainerId, PodUid},
        time::Timestamp,
    },
    decision::{AcceptedRequest, Kind, NotApplicable, SkipReason, Verb, WaitReason},
    engine::{
        action::Action,
        request::{Answer, OperatorRequest, Refused, Taken},
    },
    plan::{Plan, Sidecar},
    pod::{completion::Progress, view::PodView},
    quit::{ladder::OperatorQuit, review::Termination},
    settings::mode::Mode,
};

impl Engine {
    /// Decides on a request and carries it out. A dry run does so on a copy of the engine.
    pub(super) fn operator_requested(
        &mut self,
        now: Timestamp,
        request: &OperatorRequest,
        actions: &mut Vec<Action>,
    ) {
        let answer = if request.dry_run {
            let mut copy = self.copy_for(&request.pod);
            copy.follow(now, request, &mut Vec::new())
        } else {
            self.follow(now, request, actions)
        };
        actions.push(Action::Reply(answer));
    }

    /// A copy of the engine that tracks one pod.
    pub(super) fn copy_for(&self, uid: &PodUid) -> Self {
        let pod = self.pods.get_key_value(uid);
        Self {
            modes: self.modes,
            config: self.config.clone(),
            walked: self.walked,
            now: self.now,
            namespaces: self.namespaces.clone(),
            pods: pod
                .into_iter()
                .map(|(uid, pod)| (uid.clone(), pod.clone()))
                .collect(),
            features: self.features.clone(),
            sandboxes: self
                .sandboxes
                .iter()
                .filter(|(_sandbox, owner)| *owner == uid)
                .map(|(sandbox, owner)| (sandbox.clone(), owner.clone()))
                .collect(),
            ..Self::default()
        }
    }

    fn follow(
        &mut self,
        now: Timestamp,
        request: &OperatorRequest,
        actions: &mut Vec<Action>,
    ) -> Answer {
        let view = match self.known_pod(now, &request.pod) {
            Ok(view) => view,
            Err(refused) => return Answer::Refused(refused),
        };
        match request.verb {
            Verb::Quit { force } => self.operator_quit(request, &view, force, actions),
            Verb::Hold => self.operator_hold(request, &view, actions),
            Verb::Release => self.operator_release(request, &view, actions),
            Verb::Repair => self.operator_repair(request, &view, actions),
        }
    }

    fn known_pod(&self, now: Timestamp, uid: &PodUid) -> Result<PodView, Refused> {
        let tracked = self.pods.get(uid).filter(|pod| pod.present);
        let tracked = tracked.ok_or(Refused::NoPod)?;
        if tracked.spec.is_none() || !self.walked {
            return Err(Refused::Unknown(WaitReason::Unlisted));
        }
        self.current_view(now, uid)
            .ok_or(Refused::Unknown(WaitReason::NamespaceUnknown))
    }

    fn operator_quit(
        &mut self,
        request: &OperatorRequest,
        view: &PodView,
        force: bool,
        actions: &mut Vec<Action>,
    ) -> Answer {
        let mode = view.modes.quit;
        let tracked = self.pod_mut(&request.pod);
        let mut despite = match may_quit(view, force) {
            Ok(despite) => despite,
            Err(refused) => return Answer::Refused(refused),
        };
        if mode != Mode::Enforce {
            despite.push(format!("the node's mode is {mode}"));
        }
        despite.extend(set_aside(&view.plan));
        let termination = Termination {
            view,
            runs: &tracked.runs,
            force,
        };
        let mut living: Vec<(&Sidecar, ContainerId)> = view
            .plan
            .sidecars
            .iter()
            .filter_map(|sidecar| {
                let (id, run) = tracked.runs.newest(&sidecar.name)?;
                run.lives().then(|| (sidecar, id.clone()))
            })
            .collect();
        if living.is_empty() {
            return Answer::Nothing("none of its sidecars runs".to_owned());
        }
        living.sort_by_key(|(sidecar, _id)| sidecar.stage);
        let mut taken = Taken {
            despite,
            ..Taken::default()
        };
        let mut refused = None;
        let mut runs = BTreeSet::new();
        for (sidecar, id) in living {
            match termination.first_step(sidecar) {
                Ok(step) => {
                    taken.steps.push(step);
                    runs.insert(id);
                }
                Err(why) => {
                    let container = sidecar.name.clone();
                    refused.get_or_insert(Refused::FailsPod { container, why });
                }
            }
        }
        if let Some(refused) = &refused {
            if taken.steps.is_empty() {
                return Answer::Refused(refused.clone());
            }
            taken.despite.push(format!("it stays: {refused}"));
        }
        let steps: Vec<String> = taken
            .steps
            .iter()
            .map(|step| format!("{} by {}", step.container, step.step))
            .collect();
        taken.message = format!("terminated: {}", steps.join(", "));
        actions.push(accepted(view, request, &taken));
        let earlier = tracked.quit.operator.take();
        let force = force || earlier.as_ref().is_some_and(|earlier| earlier.force);
        runs.extend(earlier.into_iter().flat_map(|earlier| earlier.runs));
        tracked.quit.operator = Some(OperatorQuit { force, runs });
        tracked.quit.reconsider();
        self.review_pod(view.now, &request.pod, actions);
        Answer::Taken(taken)
    }
}

/// Whether an operator may terminate a pod's sidecars; gives what `force` overrides.
fn may_quit(view: &PodView, force: bool) -> Result<Vec<String>, Refused> {
    let PodView { spec, plan, .. } = view;
    if spec.deleting {
        return Err(Refused::Skipped(SkipReason::Deleting));
    }
    if let Some(reason) = spec.terminal.clone() {
        return Err(Refused::Skipped(SkipReason::Terminal { reason }));
    }
    let mut despite = Vec::new();
    let mut unless_forced = |refused: Refused| {
        if !(force && refused.yields_to_force()) {
            return Err(refused);
        }
        despite.push(refused.to_string());
        Ok(())
    };
    if let Some(why) = &plan.not_ours {
        unless_forced(Refused::NotApplicable(why.clone()))?;
    }
    match &view.progress {
        Progress::Finished { .. } => {}
        Progress::Hidden if plan.not_ours == Some(NotApplicable::NoApp) => {}
        Progress::Hidden => return Err(Refused::Hidden),
        Progress::Unfinished(why) | Progress::Unseen(why) | Progress::AskKubelet(why) => {
            unless_forced(Refused::AppRuns(why.clone()))?;
        }
    }
    Ok(despite)
}

/// Settings of a pod or its Namespace that do not apply to an operator's request.
fn set_aside(plan: &Plan) -> Vec<String> {
    let mut aside = Vec::new();
    if !plan.tuning.quit {
        let kind = Kind::Skipped {
            reason: SkipReason::OptedOut,
        };
        aside.push(kind.reason());
    }
    if !plan.tuning.quit_delay.is_zero() {
        let delay = plan.tuning.quit_delay;
        aside.push(Kind::Waiting(WaitReason::QuitDelay { delay }).reason());
    }
    aside
}

/// The decision that records an accepted request.
pub(super) fn accepted(view: &PodView, request: &OperatorRequest, taken: &Taken) -> Action {
    let despite = match taken.despite.as_slice() {
        [] => String::new(),
        aside => format!("; although {}", aside.join("; ")),
    };
    let message = format!("{}{despite}", taken.message);
    let OperatorRequest {
        verb, requester, ..
    } = *request;
    view.report(
        None,
        Kind::OperatorRequest(AcceptedRequest {
            verb,
            requester,
            summary: message,
        }),
    )
}
