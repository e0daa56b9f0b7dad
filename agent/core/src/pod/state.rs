//! The state of one pod: its runs in the kernel, its listing by the kubelet, its hold and its termination.

pub(crate) mod runs;

use std::sync::Arc;

use self::runs::Runs;
use crate::{
    base::{
        id::{ContainerId, PodUid},
        time::Timestamp,
    },
    cost::PodCost,
    hold::state::Hold,
    linger::state::Lingers,
    plan::{Plan, version_query::VersionQueries},
    pod::{
        completion::{self, Progress},
        container_change::ContainerChange,
        spec::Pod,
        view::PodView,
    },
    quit::ladder::Quit,
    settings::{config::Config, mode::Modes},
    worker::QuarantineReason,
};

#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    pub(crate) uid: PodUid,
    pub(crate) present: bool,
    /// Its cgroup is gone, and replies of its sidecars are pending.
    pub(crate) leaving: bool,
    /// The kubelet's last listing.
    pub(crate) spec: Option<Arc<Pod>>,
    pub(crate) plan: Option<Arc<Plan>>,
    pub(crate) plan_outdated: bool,
    /// Answers of the kubelet in a row that did not contain what the engine needs.
    pub(crate) unhelpful_answers: u32,
    /// When the kubelet is polled for this pod, or was if the poll is in flight.
    pub(crate) awaits_kubelet: Option<Timestamp>,
    /// Versions that its sidecars reported.
    pub(crate) versions: VersionQueries,
    pub(crate) runs: Runs,
    pub(crate) hold: Hold,
    pub(crate) linger: Lingers,
    pub(crate) quit: Quit,
    pub(crate) cost: PodCost,
    /// Why it was quarantined last.
    pub(crate) quarantined: Option<QuarantineReason>,
}

impl Tracked {
    pub(crate) fn new(uid: PodUid) -> Self {
        Self {
            uid,
            present: false,
            leaving: false,
            spec: None,
            plan: None,
            plan_outdated: true,
            unhelpful_answers: 0,
            awaits_kubelet: None,
            versions: VersionQueries::default(),
            runs: Runs::default(),
            hold: Hold::default(),
            linger: Lingers::default(),
            quit: Quit::default(),
            cost: PodCost::default(),
            quarantined: None,
        }
    }

    /// Stores the kubelet's listing; None when the kubelet no longer lists the pod.
    pub(crate) fn set_spec(&mut self, spec: Option<Pod>) {
        let Some(spec) = spec else {
            self.spec = None;
            self.plan = None;
            self.runs.set_listed(None);
            return;
        };
        if self.spec.as_deref() != Some(&spec) {
            let spec = Arc::new(spec);
            self.runs.set_listed(Some(Arc::clone(&spec)));
            self.spec = Some(spec);
            self.plan_outdated = true;
        }
    }

    pub(crate) fn set_plan(&mut self, plan: Plan) {
        self.plan_outdated = false;
        if self.plan.as_deref() != Some(&plan) {
            self.plan = Some(Arc::new(plan));
            self.quit.reconsider();
        }
    }

    pub(crate) fn apply(&mut self, id: &ContainerId, now: Timestamp, change: ContainerChange) {
        self.runs.apply(id, now, change);
        let runs = &self.runs;
        self.quit.reported.retain(|id| runs.contains(id));
    }

    /// The pod at this moment; None until the kubelet has listed it and its plan is made.
    pub(crate) fn view(
        &self,
        now: Timestamp,
        modes: Modes,
        config: &Arc<Config>,
    ) -> Option<PodView> {
        let (spec, plan) = (self.spec.as_ref()?, self.plan.as_ref()?);
        let progress = completion::progress(&self.runs, spec, plan, self.unhelpful_answers);
        let last_app_end = match (&progress, spec.deleting) {
            (Progress::Finished { at }, _) => *at,
            (_, true) => completion::last_app_run(&self.runs, spec, plan).map(|(_id, at)| at),
            (_, false) => None,
        };
        Some(PodView {
            uid: self.uid.clone(),
            spec: Arc::clone(spec),
            plan: Arc::clone(plan),
            progress,
            last_app_end,
            modes,
            config: Arc::clone(config),
            unhelpful_answers: self.unhelpful_answers,
            now,
        })
    }
}

#[cfg(test)]
mod tests;
