//! Everything known of one pod: what the kernel shows, what the kubelet says,
//! and how far its sidecars have been shown out.

use std::collections::BTreeMap;

use crate::{
    id::{ContainerId, PodUid},
    pod::Pod,
    process::ExitStatus,
    quit::Quit,
    time::Timestamp,
};

/// Ended runs without a name that are kept for a status that may name them.
const NAMELESS_KEPT: usize = 8;

/// One pod.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) uid: PodUid,
    /// Its cgroup exists.
    pub(crate) present: bool,
    /// What the kubelet says, while it lists the pod.
    pub(crate) spec: Option<Pod>,
    /// Answers of the kubelet in a row that did not tell what is needed.
    pub(crate) vain_answers: u32,
    /// The kubelet is to be asked, or is being asked, for this pod's sake.
    pub(crate) awaits_kubelet: bool,
    pub(crate) quit: Quit,
    runs: BTreeMap<ContainerId, Run>,
    started: u64,
}

/// One run of a container, as the kernel shows it.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) state: RunState,
    name: Option<String>,
    /// Order of appearance in the pod.
    order: u64,
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
    },
}

impl Tracked {
    pub(crate) fn new(uid: PodUid) -> Self {
        Self {
            uid,
            present: false,
            spec: None,
            vain_answers: 0,
            awaits_kubelet: false,
            quit: Quit::default(),
            runs: BTreeMap::new(),
            started: 0,
        }
    }

    /// The cgroup of a run exists.
    pub(crate) fn appeared(&mut self, id: &ContainerId) {
        self.run(id);
    }

    /// The init process of a run has been found.
    pub(crate) fn started(&mut self, id: &ContainerId, name: Option<String>) {
        let run = self.run(id);
        if run.state == RunState::Starting {
            run.state = RunState::Running;
        }
        if let Some(name) = name {
            run.name = Some(name);
        }
        self.prune();
    }

    pub(crate) fn named(&mut self, id: &ContainerId, name: String) {
        self.run(id).name = Some(name);
        self.prune();
    }

    /// The init process of a run ended, or its cgroup is gone: the first of
    /// the two counts.
    pub(crate) fn exited(&mut self, id: &ContainerId, now: Timestamp) {
        let run = self.run(id);
        if !matches!(run.state, RunState::Exited { .. }) {
            run.state = RunState::Exited {
                at: now,
                status: None,
            };
        }
        self.prune();
    }

    pub(crate) fn ended_with(&mut self, id: &ContainerId, now: Timestamp, how: ExitStatus) {
        self.exited(id, now);
        if let RunState::Exited { status, .. } = &mut self.run(id).state {
            *status = Some(how);
        }
    }

    /// The newest run of the container `name`; a living one before all others.
    pub(crate) fn newest(&self, name: &str) -> Option<(&ContainerId, &Run)> {
        self.runs
            .iter()
            .filter(|(id, run)| self.name_of(id, run) == Some(name))
            .max_by_key(|(_id, run)| (run.lives(), run.order))
    }

    /// Whether the run is known to the kernel's side.
    pub(crate) fn knows(&self, id: &ContainerId) -> bool {
        self.runs.contains_key(id)
    }

    /// Whether some run ended before anybody could tell which container it was.
    pub(crate) fn has_nameless_end(&self) -> bool {
        self.runs
            .iter()
            .any(|(id, run)| !run.lives() && self.name_of(id, run).is_none())
    }

    /// Name of a run: from its mounts, else from the status that lists it.
    fn name_of<'name>(&'name self, id: &ContainerId, run: &'name Run) -> Option<&'name str> {
        let listed = || {
            let spec = self.spec.as_ref()?;
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
            Run {
                state: RunState::Starting,
                name: None,
                order: next,
            }
        })
    }

    /// Forgets ended runs that a newer run of the same container replaced, and
    /// all but the newest of those that nobody could name.
    fn prune(&mut self) {
        let mut ended: Vec<(u64, Option<String>, ContainerId)> = self
            .runs
            .iter()
            .filter(|(_id, run)| !run.lives())
            .map(|(id, run)| (run.order, run.name.clone(), id.clone()))
            .collect();
        ended.sort();
        let nameless = ended.iter().filter(|(_, name, _)| name.is_none()).count();
        let mut surplus = nameless.saturating_sub(NAMELESS_KEPT);
        for (order, name, id) in ended {
            let replaced = match &name {
                Some(name) => self
                    .runs
                    .values()
                    .any(|run| run.order > order && run.name.as_ref() == Some(name)),
                None if surplus > 0 => {
                    surplus -= 1;
                    true
                }
                None => false,
            };
            if replaced {
                self.runs.remove(&id);
            }
        }
    }
}

impl Run {
    pub(crate) fn lives(&self) -> bool {
        !matches!(self.state, RunState::Exited { .. })
    }
}
