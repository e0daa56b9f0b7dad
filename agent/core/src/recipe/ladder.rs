//! Derives the ladder of one container from a recipe.

mod after_term;

use std::time::Duration;

pub use self::after_term::AfterTerm;
use super::{Act, Condition, ExitCode, Recipe, Setting, StepRecipe, Subject};
use crate::{
    pod::spec::Pod,
    recipe::step::{Request, Step},
};

/// One step for one sidecar, with its known effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LadderStep {
    pub step: Step,
    pub purpose: Purpose,
    pub code: ExitCode,
    /// How long the sidecar takes to end after it; for a drain, its duration.
    pub takes: Duration,
    /// What would allow a clean end, where this step causes none.
    pub advice: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Lets connections finish before the sidecar is terminated.
    Drain,
    Quit,
}

impl Recipe {
    /// The steps that terminate this container, best first: exit code 0 before an unknown one, an unknown one before
    /// any other; then the shortest time first; then the order of the recipe.
    pub(crate) fn quit_ladder(&self, subject: Subject<'_>) -> Vec<LadderStep> {
        let mut ladder_steps: Vec<LadderStep> = self
            .quit
            .iter()
            .filter_map(|step| step.ladder_step(subject))
            .collect();
        ladder_steps.sort_by_key(|ladder_step| rank(ladder_step.code, ladder_step.takes));
        ladder_steps
    }

    /// The request that drains this container while it lingers, if there is one.
    pub(crate) fn drain_request(&self, subject: Subject<'_>) -> Option<Request> {
        let mut steps = self
            .drain
            .iter()
            .filter_map(|step| step.ladder_step(subject));
        steps.find_map(|ladder_step| match ladder_step.step {
            Step::Request(request) => Some(request),
            Step::Signal { .. } => None,
        })
    }

    /// The step that drains this container for `time`, if there is one.
    pub(crate) fn drain_step(&self, subject: Subject<'_>, time: Duration) -> Option<LadderStep> {
        if time.is_zero() {
            return None;
        }
        let ladder_step = self
            .drain
            .iter()
            .find_map(|step| step.ladder_step(subject))?;
        Some(LadderStep {
            purpose: Purpose::Drain,
            takes: time,
            ..ladder_step
        })
    }
}

/// The sort key of a step.
pub(super) const fn rank(code: ExitCode, takes: Duration) -> (u8, Duration) {
    let harm = match code {
        ExitCode::ZERO => 0,
        ExitCode::Unknown => 1,
        ExitCode::Known(_) => 2,
    };
    (harm, takes)
}

impl StepRecipe {
    fn ladder_step(&self, subject: Subject<'_>) -> Option<LadderStep> {
        if !Condition::permit(&self.when, &self.unless, subject) {
            return None;
        }
        Some(LadderStep {
            step: self.act.step(subject)?,
            purpose: Purpose::Quit,
            code: self.code,
            takes: self.takes.of(subject),
            advice: self.advice.clone(),
        })
    }
}

impl Act {
    /// None where the pod has switched it off, or where it would reach another process.
    fn step(&self, subject: Subject<'_>) -> Option<Step> {
        let step = self.with(|port| port.of(subject), |path| path.of(subject));
        let may_be_taken = match &step {
            Step::Request(request) => request.port != 0 && may_have_requests(subject.pod),
            Step::Signal { .. } => true,
        };
        may_be_taken.then_some(step)
    }

    /// The step with settings that these functions read.
    pub(super) fn with(
        &self,
        read_port: impl FnOnce(&Setting<u16>) -> u16,
        read_path: impl FnOnce(&Setting<String>) -> String,
    ) -> Step {
        match self {
            Self::Signal { signal, process } => Step::Signal {
                signal: *signal,
                process: process.clone(),
            },
            Self::Request {
                method,
                port,
                path,
                headers,
            } => Step::Request(Request {
                method: *method,
                port: read_port(port),
                path: read_path(path),
                headers: headers.clone(),
            }),
        }
    }
}

/// Whether usher may send requests to this pod's loopback. With hostNetwork it is the node's, and its listener may be
/// any process.
pub(crate) fn may_have_requests(pod: &Pod) -> bool {
    !pod.host_network
}
