//! Answers of sidecars: to requests to quit, and to questions for versions.

use std::sync::Arc;

use super::Engine;
use crate::{
    action::Action,
    asked,
    decision::Kind,
    event::{ContainerKey, Outcome},
    finish::{Finished, report},
    lifecycle::{self, Progress},
    plan::{Plan, Sidecar},
    quit::{Candidate, Judgement},
    recipe::Purpose,
    time::Timestamp,
    tracked::Tracked,
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
        let Progress::Finished { at } = lifecycle::progress(tracked, &spec, &plan) else {
            return;
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
            Some(Judgement::Failed { step, next }) => Kind::StepFailed {
                recipe,
                step,
                outcome,
                next,
            },
            Some(Judgement::Wait) | None => return,
        };
        let finished = Finished {
            spec: &spec,
            plan: &plan,
            mode: self.modes.quit,
            timings: &self.config.ladder,
            at,
            now,
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
        let found = self.pods.get(&key.pod).and_then(|tracked| {
            let plan = tracked.plan.clone()?;
            let sidecar = sidecar_of(tracked, &plan, key)?;
            Some((tracked, sidecar.name.clone(), sidecar.question.clone()?))
        });
        let Some((tracked, name, question)) = found else {
            // Its pod went while it was being asked; the next one is asked.
            self.asked.forget_flights();
            return;
        };
        let version = body.and_then(|body| asked::version_in(body, &question.pointer));
        if let Some(version) = version {
            let kind = Kind::VersionTold { version };
            let spec = tracked.spec.as_deref();
            actions.push(report(tracked, spec, Some(&name), kind, None));
        }
        if self.asked.answered(now, &question.image, version) {
            self.forget_plans(|_pod| true);
            self.review(now, actions);
        } else {
            self.review_pod(now, &key.pod, actions);
        }
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
