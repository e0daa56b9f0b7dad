//! Reads the node once.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use usher_client::{
    error_chain::chain,
    run_dir::{self, namespaces},
};
use usher_core::{
    Action, Engine, Event, NamespaceReply,
    admin::{self, Pod},
    base::{
        id::{ContainerKey, PodUid},
        time::Timestamp,
    },
    pod::{
        container_change::ContainerChange,
        list::{PodList, Selection},
        spec,
    },
    settings::{
        config::Config,
        mode::{Modes, NodeModes},
    },
};
use usher_sys::pods::{
    cgroup::{self, FoundPod},
    container::{self, Look},
    proc::ProcRoot,
};

use super::Node;
use crate::failure::Failure;

/// A pod's cgroups, and the processes of each container.
pub(crate) type Seen = (FoundPod, HashMap<ContainerKey, Look>);

/// The state of the node at one moment.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The pods as the engine reports them.
    pub(crate) pods: Vec<Pod>,
    /// The cgroups and processes of each pod.
    pub(crate) seen: Vec<Seen>,
    /// The pods in the kubelet's list, or why it is not available.
    pub(crate) listed: Result<Vec<spec::Pod>, Failure>,
    /// The pods as the kubelet lists them; empty if documents were not requested.
    pub(crate) documents: BTreeMap<PodUid, String>,
    /// Addresses of pods, from the kubelet's list.
    pub(crate) ips: BTreeMap<String, Vec<IpAddr>>,
    /// The modes of this node that the agent saved, if any.
    pub(crate) modes: Option<NodeModes>,
    /// Data that could not be read and may be missing.
    pub(crate) gaps: Vec<String>,
    /// The engine, with all data of the survey.
    engine: Mutex<Engine>,
}

/// Whether a survey keeps the JSON of the pods with a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Documents {
    With,
    Without,
}

impl Survey {
    pub(super) async fn of(node: &Node, documents: Documents) -> Result<Self, Failure> {
        let args = &node.args;
        let root = cgroup::locate(&args.cgroup_root)
            .map_err(|error| Failure::unavailable(format!("{error}; is --cgroup-root right?")))?;
        let proc = node.proc.clone();
        let mut gaps = Vec::new();
        let config = node.config(&mut gaps);
        let mut selection = Selection::from(&config.reads());
        if documents == Documents::With {
            let pods = cgroup::walk(&root).map_err(|error| Failure::unavailable(chain(&error)))?;
            selection.documents = pods.into_iter().map(|pod| pod.uid).collect();
        }
        // Run both reads in parallel: each takes long on a full node.
        let reader = thread::spawn(move || walk(&proc, &root));
        let list = node.pods(selection).await;
        let panicked = |_panic| Failure::unavailable("the thread that reads the pods panicked");
        let read = reader.join().map_err(panicked)?;
        let (seen, unread) = read.map_err(|error| Failure::unavailable(chain(&error)))?;
        gaps.extend(unread);
        match &list {
            Ok(list) => gaps.extend(list.skipped.iter().map(|skipped| chain(skipped))),
            Err(error) => gaps.push(format!(
                "no names, specs and exit codes from the kubelet: {}",
                error.text
            )),
        }
        let (list, error) = match list {
            Ok(list) => (list, None),
            Err(error) => (PodList::default(), Some(error)),
        };
        let PodList {
            pods,
            addresses,
            documents,
            ..
        } = list;
        let listed = error.map_or(Ok(pods), Err);
        let modes = run_dir::load_node_values(&args.run_dir)
            .unwrap_or_else(|error| {
                gaps.push(chain(&error));
                None
            })
            .map(|values| NodeModes::resolve(config.modes, &values));
        let event = listed
            .as_ref()
            .map_or(Event::PodsUnavailable, |pods| Event::Pods(pods.clone()));
        let engine = feed_engine(
            node,
            config,
            modes.as_ref().map(NodeModes::modes),
            &seen,
            event,
        );
        let mut survey = Self {
            pods: engine.pods(),
            ips: addresses
                .into_iter()
                .map(|(uid, ips)| (uid.to_string(), ips))
                .collect(),
            seen,
            listed,
            documents,
            modes,
            gaps,
            engine: Mutex::new(engine),
        };
        survey.complete(node);
        Ok(survey)
    }

    /// The modes that the agent saved, or the defaults, as an agent reports them.
    pub(crate) fn reported_modes(&self) -> admin::Modes {
        let NodeModes {
            quit, hold, linger, ..
        } = self.modes.clone().unwrap_or_default();
        admin::Modes {
            quit: quit.mode,
            quit_source: Some(quit.origin()),
            hold: hold.mode,
            hold_source: Some(hold.origin()),
            linger: linger.mode,
            linger_source: Some(linger.origin()),
            known: self.modes.is_some(),
            ..admin::Modes::default()
        }
    }

    /// The engine, for plans.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds data that the engine does not keep: processes, and names that only the timeline has.
    fn complete(&mut self, node: &Node) {
        let names = if self.listed.is_err() {
            names(node)
        } else {
            HashMap::new()
        };
        let seen: HashMap<&str, &HashMap<ContainerKey, Look>> = self
            .seen
            .iter()
            .map(|(pod, looks)| (pod.uid.as_str(), looks))
            .collect();
        for pod in &mut self.pods {
            if let (None, Some((namespace, name))) = (&pod.name, names.get(&pod.uid)) {
                pod.namespace = Some(namespace.clone());
                pod.name = Some(name.clone());
            }
            let Some(looks) = seen.get(pod.uid.as_str()) else {
                continue;
            };
            for container in &mut pod.containers {
                let look = looks
                    .iter()
                    .find(|(key, _look)| Some(key.id.as_str()) == container.id.as_deref());
                container.pid = look.and_then(|(_key, look)| look.init).map(|pid| pid.0);
            }
        }
    }
}

/// The cgroups and processes of all pods, and the gaps.
fn walk(proc: &ProcRoot, root: &Path) -> Result<(Vec<Seen>, Vec<String>), cgroup::Error> {
    let mut gaps = Vec::new();
    let mut seen = Vec::new();
    for pod in cgroup::walk(root)? {
        let looks = look_into(proc, &pod, &mut gaps);
        seen.push((pod, looks));
    }
    Ok((seen, gaps))
}

fn look_into(
    proc: &ProcRoot,
    pod: &FoundPod,
    gaps: &mut Vec<String>,
) -> HashMap<ContainerKey, Look> {
    let mut looks = HashMap::new();
    for (id, cgroup) in &pod.containers {
        let key = pod.key(id);
        match container::look(proc, &key, cgroup) {
            Ok(look) => drop(looks.insert(key, look)),
            Err(error) => gaps.push(chain(&error)),
        }
    }
    looks
}

/// Creates an engine from the data of the survey. Its actions are not executed.
fn feed_engine(
    node: &Node,
    config: Arc<Config>,
    modes: Option<Modes>,
    seen: &[Seen],
    listed: Event,
) -> Engine {
    let mut engine = Engine::new(config);
    let now = Timestamp::default();
    let mut annotations = namespaces::kept(&node.args.run_dir);
    let mut step = |event| {
        for action in engine.step(now, event) {
            if let Action::FetchNamespace(name) = action {
                let values = annotations.remove(&name).unwrap_or_default();
                engine.step(
                    now,
                    Event::Namespace {
                        name,
                        reply: NamespaceReply::Read(values),
                    },
                );
            }
        }
    };
    step(Event::Modes(modes.unwrap_or_default()));
    for (pod, looks) in seen {
        step(Event::PodAppeared(pod.uid.clone()));
        for (key, look) in looks {
            step(Event::container(key.clone(), ContainerChange::Appeared));
            if look.init.is_some() {
                let (key, name) = (key.clone(), look.name.clone());
                step(Event::container(key, ContainerChange::Started { name }));
            }
        }
    }
    step(Event::Walked);
    step(listed);
    engine
}

/// The names of pods in the timeline.
fn names(node: &Node) -> HashMap<String, (String, String)> {
    let named = node.recorded().into_iter().filter_map(|entry| {
        let (namespace, name) = entry.pod.split_once('/')?;
        Some((entry.uid, (namespace.to_owned(), name.to_owned())))
    });
    named.collect()
}

/// The UID of a pod of the survey, which came from a [`PodUid`].
pub(super) fn uid_of(pod: &Pod) -> Option<PodUid> {
    PodUid::parse(&pod.uid).ok()
}
