//! A pod at one moment. The engine computes it once for an event and passes it down.

use std::{sync::Arc, time::Duration};

use crate::{
    base::{id::PodUid, time::Timestamp},
    decision::{Kind, NotApplicable},
    engine::action::Action,
    plan::{Plan, Sidecar},
    pod::{completion::Progress, spec::Pod, state::runs::Runs},
    settings::{config::Config, mode::Modes},
};

#[derive(Debug, Clone)]
pub(crate) struct PodView {
    pub(crate) uid: PodUid,
    pub(crate) spec: Arc<Pod>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) progress: Progress,
    /// When the last app ended, where the pod is finished or being deleted, and usher observed the end.
    pub(crate) last_app_end: Option<Timestamp>,
    pub(crate) modes: Modes,
    pub(crate) config: Arc<Config>,
    /// Answers of the kubelet in a row that did not contain what the engine needs.
    pub(crate) unhelpful_answers: u32,
    pub(crate) now: Timestamp,
}

impl PodView {
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.progress, Progress::Finished { .. })
    }

    /// Whether the pod is being deleted, has a terminal phase, or has finished.
    pub(crate) fn is_ending(&self) -> bool {
        self.spec.deleting || self.spec.terminal.is_some() || self.is_finished()
    }

    /// Whether an app of the pod restarts whatever its exit code: no end of an app finishes the pod.
    pub(crate) fn never_finishes(&self) -> bool {
        matches!(
            self.plan.not_ours,
            Some(NotApplicable::NeverFinishes { .. })
        )
    }

    pub(crate) fn living_sidecars(&self, runs: &Runs) -> impl Iterator<Item = &Sidecar> {
        self.plan
            .sidecars
            .iter()
            .filter(|sidecar| runs.is_living(&sidecar.name))
    }

    /// Whether a sidecar of an earlier stage still runs, which may need this one: a log shipper sends through the mesh.
    pub(crate) fn is_needed(&self, sidecar: &Sidecar, runs: &Runs) -> bool {
        self.living_sidecars(runs)
            .any(|other| other.stage < sidecar.stage)
    }

    /// A decision about the pod, or about one of its containers.
    pub(crate) fn report(&self, container: Option<&str>, kind: Kind) -> Action {
        Action::report(&self.uid, Some(&self.spec), container, kind, None)
    }

    /// The same with the time from the exit of the last app to `at`.
    pub(crate) fn report_since_exit(
        &self,
        container: Option<&str>,
        kind: Kind,
        at: Timestamp,
    ) -> Action {
        let since_exit: Option<Duration> = self.last_app_end.map(|exit| at.since(exit));
        Action::report(&self.uid, Some(&self.spec), container, kind, since_exit)
    }
}
