//! Facts about a pod that decide about its hold.

use std::{collections::BTreeSet, time::Duration};

use super::Features;
use crate::{
    base::id::ContainerId,
    pod::{
        completion,
        exit_status::ExitStatus,
        restart_policy::{self, Verdict},
        state::runs::{RunState, Runs},
        view::PodView,
    },
    start::Start,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions<'engine> {
    pub(crate) view: &'engine PodView,
    pub(crate) runs: &'engine Runs,
}

impl Conditions<'_> {
    /// Whether a container that may connect has started in this sandbox, or runs in any sandbox of the pod.
    pub(crate) fn any_app_started(self, first_run: u64) -> bool {
        self.any_started_app(first_run, |_id| true)
    }

    /// The same, of the runs that pass `filter`.
    pub(super) fn any_started_app(
        self,
        first_run: u64,
        filter: impl Fn(&ContainerId) -> bool,
    ) -> bool {
        let sidecars = self.view.plan.held_ports();
        self.view.spec.containers.iter().any(|container| {
            let is_sidecar = sidecars
                .iter()
                .any(|held_port| held_port.sidecar == container.name);
            let newest = self.runs.newest(&container.name);
            !is_sidecar
                && newest
                    .is_some_and(|(id, run)| (run.order >= first_run || run.lives()) && filter(id))
        })
    }

    /// Whether a container without a name, which may be an app, lives in this sandbox.
    pub(super) fn any_unnamed_run(self, first_run: u64) -> bool {
        let unnamed = self.runs.iter().filter(|(id, run)| {
            run.lives() && run.order >= first_run && self.runs.name_of(id, run).is_none()
        });
        // One of them is the sandbox.
        unnamed.count() > 1
    }

    pub(super) fn any_regular_container_started(self, first_run: u64) -> bool {
        let mut regular = self.view.spec.containers.iter();
        regular.any(|container| {
            let newest = self.runs.newest(&container.name);
            newest.is_some_and(|(_id, run)| run.order >= first_run)
        })
    }

    /// Whether every init container of this sandbox has completed, so that regular containers start next.
    pub(super) fn init_containers_completed(self, first_run: u64) -> bool {
        let inits = &self.view.spec.init_containers;
        if self.any_init_container_runs() {
            return false;
        }
        if inits.is_empty() || self.any_regular_container_started(first_run) {
            return true;
        }
        let has_ended = |name: &&String| {
            let newest = self.runs.newest(name);
            newest.is_some_and(|(_id, run)| run.order >= first_run && run.ended_well())
        };
        // They run one after the other. Those before the last one may have ended before this agent started.
        if inits.last().is_some_and(|last| has_ended(&last)) {
            return true;
        }
        // Some runs are too short for their mounts to be read.
        let named = inits.iter().filter(has_ended).count();
        named + self.runs.unnamed_successes(first_run) >= inits.len()
    }

    /// Whether this agent has observed a run of an init container, or one without a name.
    pub(super) fn may_run_init_containers(self) -> bool {
        let mut inits = self.view.spec.init_containers.iter();
        inits.any(|name| self.runs.newest(name).is_some()) || self.runs.unnamed_successes(0) > 0
    }

    pub(super) fn any_init_container_runs(self) -> bool {
        let mut inits = self.view.spec.init_containers.iter();
        inits.any(|name| self.runs.is_living(name))
    }

    /// Whether a sidecar ended and the kubelet does not restart it.
    pub(super) fn ended_for_good(self, name: &str) -> bool {
        let spec = &self.view.spec;
        let (Some(container), Some((id, run))) = (spec.container(name), self.runs.newest(name))
        else {
            return false;
        };
        let RunState::Exited { status, .. } = run.state else {
            return false;
        };
        if completion::may_not_have_begun(container, id, run) {
            return false;
        }
        let code = status
            .map(ExitStatus::kubernetes_code)
            .or_else(|| container.reported_code(id));
        let policy = spec.policy_of(container);
        restart_policy::judge(policy, &container.restart_rules, code) == Verdict::EndedForGood
    }

    /// Whether a sidecar run in `seen` has ended. Adds the runs that live to `seen`.
    pub(super) fn any_sidecar_ended(self, seen: &mut BTreeSet<ContainerId>) -> bool {
        for held_port in self.view.plan.held_ports() {
            let Some((id, run)) = self.runs.newest(&held_port.sidecar) else {
                continue;
            };
            if run.lives() {
                seen.insert(id.clone());
            } else if seen.contains(id) {
                return true;
            }
        }
        false
    }

    /// The starts that will be held, as far as known in advance.
    pub(crate) fn starts_to_hold(self, features: &Features) -> Vec<Start> {
        self.view
            .plan
            .starts
            .iter()
            .filter(|_| features.start.is_ok())
            .filter_map(|start| {
                Some(Start {
                    container: start.container.clone(),
                    limit: *start.limit.as_ref().ok()?,
                    probe: start.probe,
                })
            })
            .collect()
    }

    /// For how long the starts of the running apps would have been held until now.
    pub(super) fn would_hold_starts(self, features: &Features) -> Vec<(String, Duration)> {
        self.starts_to_hold(features)
            .into_iter()
            .filter_map(|start| {
                let (_id, run) = self.runs.newest(&start.container)?;
                let since = run.since.filter(|_| run.lives())?;
                Some((start.container, self.view.now.since(since).min(start.limit)))
            })
            .collect()
    }
}
