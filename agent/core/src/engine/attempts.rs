//! Answers of sidecars: to requests to quit, and to questions for versions.

use std::sync::Arc;

use super::Engine;
use crate::{
    base::{id::ContainerKey, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    plan::{Plan, Sidecar, version_query},
    pod::{
        completion::{self, Progress},
        state::Tracked,
    },
    quit::{
        Finished,
        ladder::{Candidate, Judgement},
        outcome::Outcome,
        report,
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
        let (Some(spec), Some(plan)) = (tracked.spec.clone(), tracked.plan.clone()) else {
            return;
        };
        let force = tracked.by_hand.as_ref().is_some_and(|order| order.force);
        let progress = completion::progress(tracked, &spec, &plan);
        let goes_on = matches!(
            progress,
            Progress::Finished { .. } | Progress::AskKubelet(_)
        );
        let finished = Finished {
            spec: &spec,
            plan: &plan,
            mode: self.modes.quit,
            timings: &self.config.ladder,
            at: progress.ended_at(),
            now,
            force,
        };
        let Some(sidecar) = sidecar_of(tracked, &plan, key) else {
            return;
        };
        let newest = tracked.newest(&sidecar.name);
        let candidate = Candidate {
            name: &sidecar.name,
            run: &key.id,
            since: newest.and_then(|(_id, run)| run.since),
            ladder: &sidecar.ladder,
            timings: &self.config.ladder,
        };
        let judgement = tracked.quit.attempted(now, candidate, &outcome);
        let recipe = Arc::clone(&sidecar.recipe);
        let kind = match judgement {
            Some(Judgement::Accepted(rung)) if rung.purpose == Purpose::Drain => {
                Kind::DrainAccepted {
                    recipe,
                    step: rung.step,
                    time: rung.takes,
                }
            }
            Some(Judgement::Accepted(rung)) => Kind::QuitAccepted {
                recipe,
                step: rung.step,
                outcome,
                code: rung.code,
            },
            // Once nothing is to be done any more, what was in vain is not worth telling.
            Some(Judgement::Failed { .. })
                if !force && (!goes_on || finished.left_alone().is_some()) =>
            {
                return;
            }
            Some(Judgement::Failed { step, next }) => Kind::StepFailed {
                recipe,
                step,
                outcome,
                next,
            },
            Some(Judgement::Wait) | None => return,
        };
        actions.push(finished.report(tracked, Some(&sidecar.name), kind, now));
    }

    pub(super) fn version_answered(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        body: Option<&str>,
        actions: &mut Vec<Action>,
    ) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        let plan = tracked.plan.clone();
        let sidecar = plan
            .as_ref()
            .and_then(|plan| sidecar_of(tracked, plan, key));
        let asked = sidecar.and_then(|sidecar| Some((&sidecar.name, sidecar.question.as_ref()?)));
        let Some((name, question)) = asked else {
            // It ended while it was being asked; the next one is asked.
            tracked.asked.forget_flights();
            self.review_pod(now, &key.pod, actions);
            return;
        };
        let version = body.and_then(|body| version_query::version_in(body, &question.pointer));
        if let Some(version) = version {
            let kind = Kind::VersionReported { version };
            let spec = tracked.spec.as_deref();
            actions.push(report(tracked, spec, Some(name), kind, None));
        }
        if tracked.asked.answered(now, &question.image, version) {
            tracked.plan_is_old = true;
        }
        self.review_pod(now, &key.pod, actions);
    }
}

/// The sidecar whose newest run this is.
fn sidecar_of<'plan>(
    tracked: &Tracked,
    plan: &'plan Plan,
    key: &ContainerKey,
) -> Option<&'plan Sidecar> {
    plan.sidecars.iter().find(|sidecar| {
        let newest = tracked.newest(&sidecar.name);
        newest.is_some_and(|(id, _run)| *id == key.id)
    })
}
