//! Held starts: the containers that the runtime is about to start, and the process that holds them.
//!
//! The engine names the starts to hold ([`Starts::set`]). While there are any, the agent watches the runtime's bundles.
//! A bundle identifies its container. The [holder process](crate::start::holder) marks the container's root when it is
//! mounted, and its volumes when it has an init process. The holder replies to the kernel.

pub(crate) mod holder;
mod holder_news;
mod holder_process;
mod reader;
mod stops;
mod watch;

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use usher_client::{
    backoff::{self, Backoff},
    error_chain::chain,
};
use usher_core::{
    Event,
    base::id::{ContainerId, ContainerKey, Pid, PodUid},
    linger::Stop,
    node::bundle::Bundle,
    start::{Denials, Order, Start, StartResult},
};
use usher_sys::{
    oci::bundle::{Bundles, Observation},
    pods::{proc::ProcRoot, reads::Reads},
    process::child::Launch,
};

use self::{
    holder_process::HolderProcess,
    reader::{Found, Reader},
    stops::Stops,
    watch::FailedWatch,
};
use crate::telemetry::{metrics::Metrics, reporter::Reporter};

/// Descriptors in one message.
const MAX_DESCRIPTORS: usize = 64;

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) bundle_dir: PathBuf,
    pub(crate) runtime_state_dirs: Vec<PathBuf>,
    pub(crate) proc: ProcRoot,
    pub(crate) reads: Reads,
    pub(crate) launch: Launch,
}

#[derive(Debug)]
pub(crate) struct Starts {
    bundle_dir: PathBuf,
    reader: Reader,
    wanted: HashMap<PodUid, Vec<Start>>,
    /// Watched while there are starts to hold.
    bundles: Option<Bundles>,
    /// Set while the bundles cannot be watched. No start is held then.
    failed_watch: Option<FailedWatch>,
    /// Retries of the watch.
    backoff: Backoff,
    metrics: Arc<Metrics>,
    /// Bundles of containers that have no process yet.
    created: HashMap<ContainerId, Bundle>,
    marked: HashMap<ContainerId, Marked>,
    denials: Denials,
    /// Reasons of denied execs whose container is still unknown.
    unattributed: Vec<String>,
    stops: Stops,
    holder: HolderProcess,
}

/// A container that the holder has an order for.
#[derive(Debug)]
struct Marked {
    key: ContainerKey,
    name: String,
    init: Option<Pid>,
    is_held: bool,
    /// Its program ran when the holder had marked it: the marks were too late.
    has_started: bool,
    /// When the release was ordered first.
    released: Option<Instant>,
}

impl Marked {
    fn event(&self, result: StartResult) -> Event {
        Event::Start {
            key: self.key.clone(),
            name: self.name.clone(),
            result,
        }
    }
}

impl Starts {
    pub(crate) fn new(settings: Settings, reporter: Reporter) -> Self {
        Self {
            bundle_dir: settings.bundle_dir,
            reader: Reader::new(settings.proc, settings.reads),
            wanted: HashMap::new(),
            bundles: None,
            failed_watch: None,
            backoff: Backoff::default(),
            metrics: Arc::clone(&reporter.metrics),
            created: HashMap::new(),
            marked: HashMap::new(),
            denials: Denials::default(),
            unattributed: Vec::new(),
            stops: Stops::new(settings.runtime_state_dirs),
            holder: HolderProcess::new(settings.launch, reporter),
        }
    }

    /// The future may be dropped at any time.
    pub(crate) async fn next(&mut self) -> Vec<Event> {
        if let Some(event) = self.report_failed_watch() {
            return vec![event];
        }
        let has_failed = self.failed_watch.is_some();
        let retry = has_failed.then(|| self.backoff.due(Instant::now()));
        let bundles = async {
            match &mut self.bundles {
                Some(bundles) => bundles.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            observations = bundles => match observations {
                Ok(observations) => self.observed(observations),
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "lost the watch on the runtime's bundles");
                    self.watch_again()
                }
            },
            () = backoff::wait_until(retry) => self.retry_watch(),
            found = self.reader.next() => self.found(found),
            event = self.holder.next() => self.holder_reported(event),
            events = self.stops.next() => events,
        }
    }

    /// Sets the starts of a pod that are to be held, and releases its others.
    pub(crate) fn set(&mut self, pod: &PodUid, starts: Vec<Start>) -> Vec<Event> {
        let is_obsolete = |marked: &Marked| {
            marked.key.pod == *pod && !starts.iter().any(|start| start.container == marked.name)
        };
        let obsolete: Vec<ContainerId> = self
            .marked
            .iter()
            .filter(|(_id, marked)| is_obsolete(marked))
            .map(|(id, _marked)| id.clone())
            .collect();
        for id in &obsolete {
            self.send_release(id);
        }
        if starts.is_empty() {
            self.wanted.remove(pod);
            if self.wanted.is_empty() {
                // The agent watches bundles only while there are starts to hold.
                self.bundles = None;
                self.created.clear();
            }
            return Vec::new();
        }
        self.holder.require();
        self.wanted.insert(pod.clone(), starts);
        if self.bundles.is_none() {
            return self.watch();
        }
        let created: Vec<ContainerId> = self
            .created
            .iter()
            .filter(|(_id, bundle)| bundle.pod == *pod)
            .map(|(id, _bundle)| id.clone())
            .collect();
        created.iter().flat_map(|id| self.follow(id)).collect()
    }

    /// Sets the stop signals of a pod that are to be held, and releases its others.
    pub(crate) fn set_stops(&mut self, pod: &PodUid, stops: Vec<Stop>) -> Vec<Event> {
        self.stops.set(&mut self.holder, pod, stops)
    }

    /// Releases a start whose hold is over, or whose container has ended.
    pub(crate) fn release(&mut self, id: &ContainerId) {
        if self.marked.contains_key(id) {
            self.send_release(id);
        }
    }

    fn observed(&mut self, observations: Vec<Observation>) -> Vec<Event> {
        let mut events = Vec::new();
        for observation in observations {
            tracing::trace!(?observation, "observed a bundle");
            match observation {
                Observation::Created(id, bundle) => {
                    self.created.insert(id.clone(), bundle);
                    events.extend(self.follow(&id));
                }
                Observation::Mounted(id, Ok(())) => events.extend(self.mark(&id)),
                Observation::Mounted(id, Err(reason)) => events.extend(self.unable(&id, reason)),
                Observation::Init(id, pid) => self.has_process(&id, pid),
                Observation::Removed(id) => {
                    self.created.remove(&id);
                    self.release(&id);
                }
                Observation::Unreadable(id, reason) => {
                    tracing::warn!(container_id = %id, reason, "could not read a bundle; the start of its container is not held");
                }
            }
        }
        events
    }

    /// A container without a process whose start is to be held, and the limit of the hold.
    fn wanted_start(&self, id: &ContainerId) -> Option<(Marked, Duration)> {
        let bundle = self.created.get(id)?;
        let name = bundle.container.as_deref()?;
        let mut starts = self.wanted.get(&bundle.pod)?.iter();
        let start = starts.find(|start| start.container == name)?;
        let container = Marked {
            key: ContainerKey {
                pod: bundle.pod.clone(),
                id: id.clone(),
            },
            name: name.to_owned(),
            init: None,
            is_held: false,
            has_started: false,
            released: None,
        };
        Some((container, start.limit))
    }

    fn unmarked_start(&self, id: &ContainerId) -> Option<(Marked, Duration)> {
        let is_marked = self.marked.contains_key(id);
        self.wanted_start(id).filter(|_| !is_marked)
    }

    /// Follows the bundle of a container whose start is to be held.
    fn follow(&mut self, id: &ContainerId) -> Vec<Event> {
        // A container that is marked is followed again after a lost watch, for its first process.
        if self.wanted_start(id).is_none() {
            return Vec::new();
        }
        let followed = self.bundles.as_mut().map(|bundles| bundles.follow(id));
        match followed {
            None => Vec::new(),
            Some(Ok(observations)) => self.observed(observations),
            Some(Err(error)) => self.unable(id, chain(&error)).into_iter().collect(),
        }
    }

    /// Orders the mark of a container whose root file system is mounted. No program has run in it yet.
    fn mark(&mut self, id: &ContainerId) -> Option<Event> {
        let (marked, limit) = self.unmarked_start(id)?;
        let order = Order::Mark {
            container: id.clone(),
            limit,
        };
        let bundles = self.bundles.as_ref()?;
        let descriptors = bundles
            .directory(id)
            .and_then(|directory| Ok([directory, bundles.root(id)?]));
        let sent = match &descriptors {
            Ok(descriptors) => self.holder.send(&order, &borrowed(descriptors)),
            Err(error) => Err(chain(error)),
        };
        match sent {
            Ok(()) => {
                self.marked.insert(id.clone(), marked);
                None
            }
            Err(reason) => Some(marked.event(StartResult::Unable(reason))),
        }
    }

    fn unable(&self, id: &ContainerId, reason: String) -> Option<Event> {
        let (container, _limit) = self.unmarked_start(id)?;
        Some(container.event(StartResult::Unable(reason)))
    }

    /// Reads a container's volumes, which may contain its program. They exist from its first process on.
    fn has_process(&mut self, id: &ContainerId, pid: Pid) {
        self.created.remove(id);
        if let Some(marked) = self.marked.get_mut(id) {
            marked.init = Some(pid);
            self.reader.read_volumes(marked.key.clone(), pid);
        }
    }

    fn found(&mut self, found: Found) -> Vec<Event> {
        match found {
            Found::Volumes(id, volumes) => {
                if self.marked.contains_key(&id) {
                    self.mark_volumes(&id, &volumes);
                }
                Vec::new()
            }
            Found::Program(id, occasion, program) => self.program_read(&id, occasion, program),
        }
    }

    fn mark_volumes(&mut self, id: &ContainerId, volumes: &[OwnedFd]) {
        let order = Order::Volumes {
            container: id.clone(),
        };
        for volumes in volumes.chunks(MAX_DESCRIPTORS) {
            if let Err(reason) = self.holder.send(&order, &borrowed(volumes)) {
                tracing::debug!(container_id = %id, reason, "could not request the marks of a container's volumes");
            }
        }
    }

    /// Orders the release of a start. The holder reports when it is done.
    fn send_release(&mut self, id: &ContainerId) {
        if let Some(marked) = self.marked.get_mut(id) {
            marked.released.get_or_insert_with(Instant::now);
        }
        let order = Order::Release {
            container: id.clone(),
        };
        let root = self.bundles.as_ref().map(|bundles| bundles.root(id));
        let root: Vec<OwnedFd> = root.into_iter().flatten().collect();
        if let Err(reason) = self.holder.send(&order, &borrowed(&root)) {
            tracing::warn!(container_id = %id, reason, "could not request the release of a start; the holder releases it at its limit");
        }
    }
}

fn borrowed(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

#[cfg(test)]
mod tests;
