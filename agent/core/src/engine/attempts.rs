//! Replies of sidecars: to attempts to terminate them, and to version queries.

use std::sync::Arc;

use super::Engine;
use crate::{
    base::{id::ContainerKey, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    plan::{Plan, Sidecar},
    pod::{
        completion::Progress,
        state::{Tracked, runs::Runs},
        view::PodView,
    },
    quit::{
        ladder::{Judgement, SidecarRun},
        outcome::Outcome,
        review::Termination,
    },
    recipe::Purpose,
};

impl Engine {
    pub(super) fn attempted(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        // For a pod that is gone only a step that the sidecar received is reported.
        let is_reported = !tracked.leaving || outcome.is_received();
        let view = tracked.view(now, self.modes, &self.config);
        let report = view.and_then(|view| apply_attempt(tracked, &view, key, outcome));
        if is_reported {
            actions.extend(report);
            self.review_pod(now, &key.pod, actions);
        }
        self.remove_left_pod(&key.pod);
    }

    pub(super) fn version_answered(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        version: Option<&str>,
        actions: &mut Vec<Action>,
    ) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        let plan = tracked.plan.clone();
        let query = plan
            .as_ref()
            .and_then(|plan| sidecar_of(&tracked.runs, plan, key))
            .and_then(|sidecar| Some((&sidecar.name, sidecar.version_query.as_ref()?)));
        if let Some((name, query)) = query {
            let version = version.and_then(|version| version.parse().ok());
            if let Some(version) = version {
                let kind = Kind::VersionReported { version };
                let spec = tracked.spec.as_deref();
                actions.push(Action::report(&key.pod, spec, Some(name), kind, None));
            }
            if tracked.versions.answered(now, &query.image, version) {
                tracked.plan_outdated = true;
            }
        } else {
            // The run exited before it answered; the next run is queried.
            tracked.versions.forget_flights();
        }
        self.review_pod(now, &key.pod, actions);
    }
}

/// Applies the outcome of an attempt, and reports it.
fn apply_attempt(
    tracked: &mut Tracked,
    view: &PodView,
    key: &ContainerKey,
    outcome: Outcome,
) -> Option<Action> {
    let Tracked { runs, quit, .. } = tracked;
    let force = quit.operator.as_ref().is_some_and(|request| request.force);
    let termination = Termination { view, runs, force };
    let Some(sidecar) = sidecar_of(runs, &view.plan, key) else {
        quit.answered_late(&key.id);
        return None;
    };
    let newest = runs.newest(&sidecar.name)?;
    let candidate = SidecarRun::new(sidecar, newest, &sidecar.ladder, &view.config.ladder);
    let recipe = Arc::clone(&sidecar.recipe);
    let kind = match quit.attempted(view.now, candidate, &outcome)? {
        Judgement::Accepted(step) if step.purpose == Purpose::Drain => Kind::DrainAccepted {
            recipe,
            step: step.step,
            time: step.takes,
        },
        Judgement::Accepted(step) => Kind::QuitAccepted {
            recipe,
            step: step.step,
            outcome,
            code: step.code,
        },
        Judgement::Failed { step, next } => {
            let goes_on = matches!(
                view.progress,
                Progress::Finished { .. } | Progress::AskKubelet(_)
            );
            // A failed step is not worth a report once the termination is over.
            let on_deletion = view.never_finishes() && view.spec.deleting;
            if !force && !on_deletion && (!goes_on || termination.left_alone().is_some()) {
                return None;
            }
            Kind::StepFailed {
                recipe,
                step,
                outcome,
                next,
            }
        }
        Judgement::Wait => return None,
    };
    Some(termination.report(Some(&sidecar.name), kind))
}

/// The sidecar with this newest run.
fn sidecar_of<'plan>(runs: &Runs, plan: &'plan Plan, key: &ContainerKey) -> Option<&'plan Sidecar> {
    plan.sidecars.iter().find(|sidecar| {
        let newest = runs.newest(&sidecar.name);
        newest.is_some_and(|(id, _run)| *id == key.id)
    })
}
