//! The runs of a pod's containers, as observed in the kernel.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    base::{
        id::{ContainerId, SandboxId},
        time::Timestamp,
    },
    pod::{
        container_change::ContainerChange,
        exit_status::ExitStatus,
        spec::{Pod, RunState as Reported},
    },
};

/// Limit of the ended runs without a name. A later status may name them.
const UNNAMED_KEPT: usize = 8;

#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    /// Boxed: a node of the tree has room for eleven runs, and a pod has few.
    runs: BTreeMap<ContainerId, Box<Run>>,
    started: u64,
    /// The kubelet's listing, which names runs that have no name from their mounts.
    listed: Option<Arc<Pod>>,
    /// The newest restart of the whole pod.
    pub(crate) restart: Option<Restart>,
}

/// A restart of the whole pod: the kubelet kills the running containers, then starts every container again, in the
/// order of the spec.
#[derive(Debug, Clone)]
pub(crate) struct Restart {
    /// The container whose exit caused the restart.
    pub(crate) by: String,
    /// The number of runs of the pod that had begun by that exit.
    pub(crate) since: u64,
    /// The order of that container's first run after it.
    pub(crate) again: Option<u64>,
}

/// One run of a container, as observed in the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) state: RunState,
    name: Option<String>,
    /// Order of appearance in the pod.
    pub(crate) order: u64,
    /// When its init process was found.
    pub(crate) since: Option<Timestamp>,
    /// When a port of it was first found to have a listener.
    pub(crate) listens_since: Option<Timestamp>,
    gone: bool,
    /// Its processes are not visible.
    pub(crate) hidden: bool,
    /// It ran the image's program: observed, or concluded from its exit.
    pub(crate) executed: bool,
    /// When it was first observed to run the image's program.
    pub(crate) executed_at: Option<Timestamp>,
    /// It ended before it ran the image's program, so its exit code does not count.
    pub(crate) not_started: bool,
    /// Its exit was reported, and the exit status follows.
    awaits_status: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunState {
    /// Its cgroup exists; its init process has not been found yet.
    Starting,
    Running,
    /// Its init process ended, or its cgroup is gone.
    Exited {
        at: Timestamp,
        status: Option<ExitStatus>,
        /// The number of runs of the pod that had begun by then.
        begun: u64,
    },
}

impl Runs {
    /// Stores the kubelet's listing of the pod; None where it is not listed.
    pub(crate) fn set_listed(&mut self, spec: Option<Arc<Pod>>) {
        self.listed = spec;
    }

    /// Ends the runs whose program was not observed and that the kubelet reports as terminated. The runtime could not
    /// start them, and may have left their cgroup.
    pub(crate) fn end_reported(&mut self, now: Timestamp) {
        let Some(listed) = self.listed.clone() else {
            return;
        };
        for status in listed
            .containers
            .iter()
            .filter_map(|one| one.status.as_ref())
        {
            let Some(id) = status.id.as_ref() else {
                continue;
            };
            let run = self.get(id);
            let never_ran = run.is_some_and(|run| run.lives() && !run.executed);
            if never_ran && matches!(status.state, Reported::Terminated(_)) {
                self.exited(id, now);
            }
        }
    }

    pub(crate) fn contains(&self, id: &ContainerId) -> bool {
        self.runs.contains_key(id)
    }

    pub(crate) fn apply(&mut self, id: &ContainerId, now: Timestamp, change: ContainerChange) {
        match change {
            // An earlier run that is forgotten.
            ContainerChange::Gone if !self.contains(id) => {}
            ContainerChange::Appeared => {
                self.run(id);
            }
            ContainerChange::Started { name } => self.started(id, now, name),
            ContainerChange::Named(name) => {
                self.run(id).name = Some(name);
                self.prune();
            }
            ContainerChange::Executed => {
                let run = self.run(id);
                run.executed = true;
                run.executed_at.get_or_insert(now);
            }
            ContainerChange::Hidden => self.run(id).hidden = true,
            ContainerChange::Exited => {
                // It may be reported twice, and after the exit status.
                let is_first = self.get(id).is_none_or(Run::lives);
                self.exited(id, now);
                let run = self.run(id);
                run.executed = true;
                run.awaits_status |= is_first;
            }
            ContainerChange::NotStarted => {
                self.exited(id, now);
                let run = self.run(id);
                run.not_started = true;
                run.awaits_status = false;
            }
            ContainerChange::NoExitStatus => {
                if let Some(run) = self.runs.get_mut(id) {
                    run.awaits_status = false;
                }
            }
            ContainerChange::ExitStatus(exit_status) => {
                self.exited(id, now);
                let run = self.run(id);
                run.executed = true;
                run.awaits_status = false;
                if let RunState::Exited { status, .. } = &mut run.state {
                    *status = Some(exit_status);
                }
            }
            ContainerChange::Gone => {
                self.exited(id, now);
                let run = self.run(id);
                run.gone = true;
                run.awaits_status = false;
            }
        }
    }

    fn started(&mut self, id: &ContainerId, now: Timestamp, name: Option<String>) {
        let run = self.run(id);
        if run.state == RunState::Starting {
            run.state = RunState::Running;
            run.since = Some(now);
        }
        if let Some(name) = name {
            run.name = Some(name);
        }
        self.prune();
    }

    /// The init process exited or the cgroup is gone: the first of the two sets the end.
    fn exited(&mut self, id: &ContainerId, now: Timestamp) {
        self.run(id);
        let begun = self.started;
        let run = self.run(id);
        if !matches!(run.state, RunState::Exited { .. }) {
            run.state = RunState::Exited {
                at: now,
                status: None,
                begun,
            };
        }
        self.prune();
    }

    pub(crate) fn get(&self, id: &ContainerId) -> Option<&Run> {
        self.runs.get(id).map(AsRef::as_ref)
    }

    /// All runs that are kept.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ContainerId, &Run)> {
        self.runs.iter().map(|(id, run)| (id, &**run))
    }

    /// The newest run of the container `name`; a living run first. A run that a dead runtime had created but not
    /// started may still live; it does not count if the container was created again.
    pub(crate) fn newest(&self, name: &str) -> Option<(&ContainerId, &Run)> {
        let runs = || {
            let all = self.iter();
            all.filter(|(id, run)| self.name_of(id, run) == Some(name))
        };
        let last = runs().map(|(_id, run)| run.order).max();
        runs().max_by_key(|(_id, run)| {
            let counts = run.executed || last == Some(run.order);
            (run.lives() && counts, run.order)
        })
    }

    /// Records that a port of the newest run of the container `name` has a listener.
    pub(crate) fn found_listener(&mut self, name: &str, now: Timestamp) {
        let newest = self.newest(name).map(|(id, _run)| id.clone());
        if let Some(run) = newest.and_then(|id| self.runs.get_mut(&id)) {
            run.listens_since.get_or_insert(now);
        }
    }

    pub(crate) fn is_living(&self, name: &str) -> bool {
        self.newest(name).is_some_and(|(_id, run)| run.lives())
    }

    /// All runs of the container `name` that are kept, newest first.
    pub(crate) fn runs_of(&self, name: &str) -> Vec<(&ContainerId, &Run)> {
        let mut runs: Vec<_> = self
            .iter()
            .filter(|(id, run)| self.name_of(id, run) == Some(name))
            .collect();
        runs.sort_by_key(|(_id, run)| std::cmp::Reverse(run.order));
        runs
    }

    /// Whether a run ended before its container's name was known. `order`: only a run that began after this one.
    pub(crate) fn has_unnamed_end_since(&self, order: Option<u64>) -> bool {
        self.iter().any(|(id, run)| {
            let is_later = order.is_none_or(|order| run.order > order);
            is_later && !run.lives() && self.name_of(id, run).is_none()
        })
    }

    pub(crate) fn has_unnamed_end(&self) -> bool {
        self.has_unnamed_end_since(None)
    }

    /// The number of runs from the order `begun` on that ended with 0 or an unknown code before their container's
    /// name was known.
    pub(crate) fn unnamed_successes(&self, begun: u64) -> usize {
        let runs = self.iter().filter(|(_id, run)| run.order >= begun);
        runs.filter(|(id, run)| run.ended_well() && self.name_of(id, run).is_none())
            .count()
    }

    /// The living runs without a name: the sandbox, and containers that are being started.
    pub(crate) fn unnamed(&self) -> impl Iterator<Item = &Run> {
        self.iter()
            .filter(|(id, run)| run.lives() && self.name_of(id, run).is_none())
            .map(|(_id, run)| run)
    }

    /// The number of runs that began before those of this sandbox.
    pub(crate) fn first_run_of(&self, sandbox: &SandboxId) -> u64 {
        let own = self
            .iter()
            .find(|(id, _run)| id.as_str() == sandbox.as_str());
        own.map_or(self.started, |(_id, run)| run.order)
    }

    /// The number of runs that have begun.
    pub(crate) const fn count(&self) -> u64 {
        self.started
    }

    /// Name of a run: from its mounts, else from the status that lists it.
    pub(crate) fn name_of<'name>(
        &'name self,
        id: &ContainerId,
        run: &'name Run,
    ) -> Option<&'name str> {
        let listed = || {
            let spec = self.listed.as_ref()?;
            spec.containers.iter().find_map(|container| {
                let status = container.status.as_ref()?;
                let last = status.last.as_ref().map(|ended| &ended.id);
                let this = status.id.as_ref() == Some(id) || last == Some(id);
                this.then_some(container.name.as_str())
            })
        };
        run.name.as_deref().or_else(listed)
    }

    fn run(&mut self, id: &ContainerId) -> &mut Run {
        let next = self.started;
        self.runs.entry(id.clone()).or_insert_with(|| {
            self.started += 1;
            Box::new(Run {
                state: RunState::Starting,
                name: None,
                order: next,
                since: None,
                listens_since: None,
                gone: false,
                hidden: false,
                executed: false,
                executed_at: None,
                not_started: false,
                awaits_status: false,
            })
        })
    }

    /// Forgets ended runs with a known result that a newer run of the same container replaced and, beyond a limit,
    /// the oldest ones without a name or a known result. While the kubelet has not listed the pod, its restart rules
    /// are unknown, and any result may matter.
    fn prune(&mut self) {
        let mut ended: Vec<(u64, Option<String>, bool, ContainerId)> = self
            .iter()
            .filter_map(|(id, run)| {
                let RunState::Exited { status, .. } = run.state else {
                    return None;
                };
                let known = status.is_some() && self.listed.is_some();
                Some((run.order, run.name.clone(), known, id.clone()))
            })
            .collect();
        ended.sort();
        let unknown = |(_, name, known, _): &&(u64, Option<String>, bool, ContainerId)| {
            name.is_none() || !known
        };
        let mut surplus = ended
            .iter()
            .filter(unknown)
            .count()
            .saturating_sub(UNNAMED_KEPT);
        for (order, name, known, id) in ended {
            let replaced = name.as_ref().is_some_and(|name| {
                let newer = |run: &Run| run.order > order && run.name.as_ref() == Some(name);
                self.iter().any(|(_id, run)| newer(run))
            });
            let forget = if known && name.is_some() {
                replaced
            } else if surplus > 0 && (name.is_none() || replaced) {
                surplus -= 1;
                true
            } else {
                false
            };
            if forget {
                self.runs.remove(&id);
            }
        }
    }
}

impl Run {
    pub(crate) fn lives(&self) -> bool {
        !matches!(self.state, RunState::Exited { .. })
    }

    pub(crate) const fn ended_at(&self) -> Option<Timestamp> {
        match self.state {
            RunState::Exited { at, .. } => Some(at),
            RunState::Starting | RunState::Running => None,
        }
    }

    /// Whether it ended with 0, or with a code that stays unknown.
    pub(crate) fn ended_well(&self) -> bool {
        match self.state {
            RunState::Exited { status, .. } => {
                !self.not_started
                    && !self.awaits_status
                    && status.is_none_or(|status| status.kubernetes_code() == 0)
            }
            RunState::Starting | RunState::Running => false,
        }
    }

    /// Whether everything about its end is known.
    pub(crate) fn is_settled(&self) -> bool {
        match self.state {
            RunState::Exited { status, .. } => self.gone || status.is_some(),
            RunState::Starting | RunState::Running => false,
        }
    }
}
