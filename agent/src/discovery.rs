//! Pods, containers and processes of the node, as events.
//!
//! The cgroup tree tells which containers come and go; each is followed by a
//! task of its own until it ends. What is kept here is the init process of
//! every living container, by which it can be acted upon.

use std::{collections::HashMap, path::Path, sync::Arc};

use tokio::sync::mpsc;
use usher_core::{
    Event,
    event::ContainerKey,
    id::{ContainerId, NetnsId, PodUid},
};
use usher_sys::{
    cgroup::{Change, Error, Tree},
    container::{Container, Init, Sight},
    proc::ProcRoot,
};

use crate::{attempt::Socket, metrics::Metrics, telemetry::chain};

/// Sights that may wait to be taken; beyond it the tasks wait.
const WAITING: usize = 1024;

/// A container that has an init process.
#[derive(Debug)]
pub(crate) struct Living {
    pub(crate) init: Arc<Init>,
    /// A socket for the first request, if it is a sidecar.
    pub(crate) socket: Option<Socket>,
}

/// The living containers.
#[derive(Debug)]
pub(crate) struct Discovery {
    tree: Tree,
    proc: ProcRoot,
    living: HashMap<ContainerKey, Living>,
    /// Network namespaces that the containers of each pod were started in, the
    /// sandbox's among them.
    namespaces: HashMap<PodUid, Vec<(ContainerId, NetnsId)>>,
    seen: mpsc::Sender<(ContainerKey, Sight)>,
    sights: mpsc::Receiver<(ContainerKey, Sight)>,
    metrics: Arc<Metrics>,
}

impl Discovery {
    /// Walks the tree below `root` and watches it from then on.
    pub(crate) fn open(
        root: &Path,
        proc: ProcRoot,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Vec<Event>), Error> {
        let (tree, changes, errors) = Tree::open(root)?;
        let (seen, sights) = mpsc::channel(WAITING);
        let mut discovery = Self {
            tree,
            proc,
            living: HashMap::new(),
            namespaces: HashMap::new(),
            seen,
            sights,
            metrics,
        };
        let mut events = discovery.changed(changes, &errors);
        events.push(Event::Walked);
        Ok((discovery, events))
    }

    /// Waits for something to happen.
    ///
    /// # Errors
    /// When the tree cannot be watched any more.
    pub(crate) async fn next(&mut self) -> Result<Vec<Event>, Error> {
        tokio::select! {
            biased;
            changed = self.tree.changed() => {
                let (changes, errors) = changed?;
                Ok(self.changed(changes, &errors))
            }
            sight = self.sights.recv() => {
                // Never None: a sender is kept here.
                Ok(sight.map(|(key, sight)| self.saw(key, sight)).into_iter().collect())
            }
        }
    }

    /// What has come and gone until now, without waiting.
    ///
    /// # Errors
    /// When the tree cannot be watched any more.
    pub(crate) fn now(&mut self) -> Result<Vec<Event>, Error> {
        let (changes, errors) = self.tree.drain()?;
        Ok(self.changed(changes, &errors))
    }

    /// A living container.
    pub(crate) fn living(&mut self, key: &ContainerKey) -> Option<&mut Living> {
        self.living.get_mut(key)
    }

    /// Whether a container was started in the network namespace of its pod, as
    /// far as the pod's other containers tell. One that has moved into another
    /// pod's before anybody looked would be taken for it else.
    pub(crate) fn is_in_pod_netns(&self, key: &ContainerKey, netns: NetnsId) -> bool {
        let mut others = self.namespaces.get(&key.pod).into_iter().flatten();
        others.all(|(_id, other)| *other == netns)
    }

    fn ended(&mut self, key: &ContainerKey) {
        self.living.remove(key);
        if let Some(namespaces) = self.namespaces.get_mut(&key.pod) {
            namespaces.retain(|(id, _netns)| *id != key.id);
            if namespaces.is_empty() {
                self.namespaces.remove(&key.pod);
            }
        }
    }

    fn changed(&mut self, changes: Vec<Change>, errors: &[Error]) -> Vec<Event> {
        for error in errors {
            self.metrics.discovery_error(error.kind());
            tracing::warn!(error = %chain(error), "could not look at a part of the cgroup tree");
        }
        changes
            .into_iter()
            .map(|change| match change {
                Change::PodAppeared(uid) => Event::PodAppeared(uid),
                Change::PodGone(uid) => Event::PodGone(uid),
                Change::ContainerGone(key) => {
                    self.ended(&key);
                    Event::ContainerGone(key)
                }
                Change::ContainerAppeared(key, cgroup) => {
                    self.follow(Container {
                        key: key.clone(),
                        cgroup,
                        proc: self.proc.clone(),
                    });
                    Event::ContainerAppeared(key)
                }
            })
            .collect()
    }

    fn follow(&self, container: Container) {
        let seen = self.seen.clone();
        let metrics = Arc::clone(&self.metrics);
        tokio::spawn(async move {
            let key = container.key.clone();
            let tell = |sight| async {
                // Nobody listens only when the agent is ending.
                drop(seen.send((key.clone(), sight)).await);
            };
            if let Err(error) = container.follow(tell).await {
                metrics.discovery_error(error.kind());
                tracing::warn!(
                    uid = %key.pod,
                    container_id = %key.id,
                    error = %chain(&error),
                    "could not follow a container; its end will be seen by its cgroup's"
                );
            }
        });
    }

    fn saw(&mut self, key: ContainerKey, sight: Sight) -> Event {
        match sight {
            Sight::Started(init, name) => {
                let socket = None;
                let namespaces = self.namespaces.entry(key.pod.clone()).or_default();
                namespaces.push((key.id.clone(), init.netns));
                self.living.insert(key.clone(), Living { init, socket });
                Event::ContainerStarted { key, name }
            }
            Sight::Opaque => Event::ContainerOpaque(key),
            Sight::Named(name) => Event::ContainerNamed { key, name },
            Sight::Exited => {
                self.ended(&key);
                Event::ContainerExited(key)
            }
            Sight::Status(status) => Event::ContainerStatus { key, status },
        }
    }
}
