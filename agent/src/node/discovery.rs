//! Reports the pods, containers and processes of the node as events.
//!
//! The cgroup tree reports created and removed containers. A task follows each container until its end. Actions on a
//! container use its init process, which is kept here while it lives.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;
use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerId, ContainerKey, NetnsId, PodUid},
    pod::container_change::ContainerChange,
};
use usher_sys::pods::{
    cgroup::{Change, Error, Tree},
    container::{self, Container, Init},
    proc::ProcRoot,
    reads::Reads,
};

use crate::{
    quit::{Prepared, Sidecar},
    telemetry::metrics::Metrics,
};

/// Capacity of the channel from the container tasks; beyond it the tasks wait.
const CHANNEL_CAPACITY: usize = 1024;

/// Delay before a failed task follows its container again. It doubles up to the second value.
const SOON: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_secs(60);

/// A container that has an init process.
#[derive(Debug)]
pub(crate) struct Living {
    pub(crate) init: Arc<Init>,
    /// Socket for the first request to a sidecar.
    pub(crate) prepared: Option<Prepared>,
}

/// A change of a container that its task observed.
#[derive(Debug)]
struct Observation {
    key: ContainerKey,
    change: ContainerChange,
    /// The init process, with [`ContainerChange::Started`].
    init: Option<Arc<Init>>,
}

/// Finds the containers of the node and keeps the init process of each living one.
#[derive(Debug)]
pub(crate) struct Discovery {
    tree: Tree,
    proc: ProcRoot,
    reads: Reads,
    /// The living containers of each pod, including the sandbox.
    living: HashMap<PodUid, BTreeMap<ContainerId, Living>>,
    /// Containers that have ended without a reported exit status.
    ended: HashMap<ContainerKey, Arc<Init>>,
    report: mpsc::Sender<Observation>,
    observations: mpsc::Receiver<Observation>,
    metrics: Arc<Metrics>,
}

impl Discovery {
    /// Lists the tree below `root`, and watches it from then on.
    pub(crate) fn open(
        root: &Path,
        proc: ProcRoot,
        reads: Reads,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Vec<Event>), Error> {
        let (tree, changes, errors) = Tree::open(root)?;
        let (report, observations) = mpsc::channel(CHANNEL_CAPACITY);
        let mut discovery = Self {
            tree,
            proc,
            reads,
            living: HashMap::new(),
            ended: HashMap::new(),
            report,
            observations,
            metrics,
        };
        let mut events = discovery.changed(changes, &errors);
        events.push(Event::Walked);
        Ok((discovery, events))
    }

    pub(crate) async fn next(&mut self) -> Result<Vec<Event>, Error> {
        tokio::select! {
            biased;
            changed = self.tree.changed() => {
                let (changes, errors) = changed?;
                Ok(self.changed(changes, &errors))
            }
            Some(Observation { key, change, init }) = self.observations.recv() => {
                match (&change, init) {
                    (ContainerChange::Started { .. }, Some(init)) => self.begin(&key, init),
                    (ContainerChange::Exited | ContainerChange::NotStarted, _) => self.end(&key),
                    (ContainerChange::ExitStatus(_), _) => drop(self.ended.remove(&key)),
                    _ => {}
                }
                Ok(vec![Event::container(key, change)])
            }
        }
    }

    /// Events of the changes of the tree so far, without waiting.
    pub(crate) fn now(&mut self) -> Result<Vec<Event>, Error> {
        let (changes, errors) = self.tree.settle()?;
        Ok(self.changed(changes, &errors))
    }

    /// Whether the last listing of the tree was complete.
    pub(crate) const fn is_whole(&self) -> bool {
        self.tree.is_whole()
    }

    /// Containers that have ended without a reported exit. Their tasks report the exit again later.
    pub(crate) fn dead(&mut self) -> Vec<ContainerKey> {
        let mut dead = Vec::new();
        for (pod, living) in &self.living {
            for (id, Living { init, .. }) in living {
                // For the others it is still unclear whether their program had started.
                if init.has_executed() && !init.pidfd.is_alive() {
                    let (pod, id) = (pod.clone(), id.clone());
                    dead.push(ContainerKey { pod, id });
                }
            }
        }
        dead.iter().for_each(|key| self.end(key));
        dead
    }

    pub(crate) fn living(&mut self, key: &ContainerKey) -> Option<&mut Living> {
        self.living.get_mut(&key.pod)?.get_mut(&key.id)
    }

    /// The init process of a container, or of another container of its pod where that has ended.
    pub(crate) fn init_in_pod(&self, key: &ContainerKey) -> Option<Arc<Init>> {
        let pod = self.living.get(&key.pod)?;
        let living = pod
            .get(&key.id)
            .or_else(|| pod.values().find(|living| living.init.pidfd.is_alive()))?;
        Some(Arc::clone(&living.init))
    }

    /// The sidecar for an attempt. The attempt consumes the prepared socket.
    pub(crate) fn take_attempt(&mut self, key: &ContainerKey) -> Option<Sidecar> {
        let prepared = self.living(key)?.prepared.take();
        let sidecar = self.sidecar(key)?;
        Some(Sidecar {
            prepared,
            ..sidecar
        })
    }

    /// A living sidecar, without the prepared socket.
    pub(crate) fn sidecar(&self, key: &ContainerKey) -> Option<Sidecar> {
        let init = Arc::clone(&self.living.get(&key.pod)?.get(&key.id)?.init);
        Some(Sidecar {
            in_pod_netns: self.is_in_pod_netns(key, init.netns),
            init,
            prepared: None,
        })
    }

    /// Whether a container was started in the network namespace of its pod's other containers. Otherwise a process
    /// that moved into another pod's namespace before the first read would be taken for this container.
    pub(crate) fn is_in_pod_netns(&self, key: &ContainerKey, netns: NetnsId) -> bool {
        let mut others = self.living.get(&key.pod).into_iter().flatten();
        others.all(|(_id, other)| other.init.netns == netns)
    }

    fn begin(&mut self, key: &ContainerKey, init: Arc<Init>) {
        let prepared = None;
        let living = self.living.entry(key.pod.clone()).or_default();
        living.insert(key.id.clone(), Living { init, prepared });
    }

    fn end(&mut self, key: &ContainerKey) {
        let Some(pod) = self.living.get_mut(&key.pod) else {
            return;
        };
        let living = pod.remove(&key.id);
        if pod.is_empty() {
            self.living.remove(&key.pod);
        }
        // Kept until the exit status is reported or the cgroup is removed.
        if let Some(living) = living.filter(|_living| self.tree.knows(key)) {
            self.ended.insert(key.clone(), living.init);
        }
    }

    /// Handles a removed cgroup. The kernel removes it after the reap of its processes, but its removal may be
    /// reported first. The exit status is read here, because the engine ignores later changes of the container.
    fn gone(&mut self, key: ContainerKey) -> Vec<Event> {
        let living = self.living(&key).map(|living| Arc::clone(&living.init));
        self.end(&key);
        let init = self.ended.remove(&key).or(living);
        let status = init.and_then(|init| Some((init.pidfd.status()?, init)));
        let status = status.map(|(status, init)| {
            let key = key.clone();
            let change = match init.never_executed(status) {
                true => ContainerChange::NotStarted,
                false => ContainerChange::ExitStatus(status),
            };
            Event::container(key, change)
        });
        status
            .into_iter()
            .chain([Event::container(key, ContainerChange::Gone)])
            .collect()
    }

    fn changed(&mut self, changes: Vec<Change>, errors: &[Error]) -> Vec<Event> {
        for error in errors {
            self.metrics.discovery_errors.inc(&error.kind());
            tracing::warn!(error = %chain(error), "could not read a part of the cgroup tree");
        }
        changes
            .into_iter()
            .flat_map(|change| match change {
                Change::PodAppeared(uid) => vec![Event::PodAppeared(uid)],
                Change::PodGone(uid) => vec![Event::PodGone(uid)],
                Change::ContainerGone(key) => self.gone(key),
                Change::ContainerAppeared(key, cgroup) => {
                    self.follow(Container {
                        key: key.clone(),
                        cgroup: cgroup.into(),
                        proc: self.proc.clone(),
                        reads: self.reads.clone(),
                    });
                    vec![Event::container(key, ContainerChange::Appeared)]
                }
            })
            .collect()
    }

    fn follow(&self, container: Container) {
        let sender = self.report.clone();
        let metrics = Arc::clone(&self.metrics);
        tokio::spawn(async move {
            let key = container.key.clone();
            let report = |change, init| async {
                let key = key.clone();
                // Fails only during the agent's shutdown.
                drop(sender.send(Observation { key, change, init }).await);
            };
            let mut wait = SOON;
            while let Err(error) = container.follow(&report).await {
                metrics.discovery_errors.inc(&error.kind());
                if wait == SOON {
                    tracing::warn!(
                        uid = %key.pod,
                        container_id = %key.id,
                        error = %chain(&error),
                        "could not follow a container, retrying; its end is detected when its cgroup is removed"
                    );
                }
                if matches!(error, container::Error::NoProcess(_)) {
                    return;
                }
                // For example, no descriptor, memory or thread was left. The loop ends with the cgroup at the latest.
                tokio::time::sleep(wait).await;
                wait = LATE.min(wait * 2);
            }
        });
    }
}
