//! Starts that are to be held: which containers the runtime is about to start,
//! and the process that holds them.
//!
//! The core says whose starts ([`Starts::wish`]). The runtime's bundles are watched as long as
//! some are wished for: a container is told apart by its bundle, marked when its root is
//! mounted, and its volumes when it has an init process. All that is to be answered at once is the
//! [holder](crate::start::holder)'s.

pub(crate) mod holder;
mod holder_news;
mod holder_process;

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerId, ContainerKey, Pid, PodUid},
    node::bundle::Bundle,
    start::{Order, Start, Told},
};
use usher_sys::{
    oci::bundle::{self, Bundles, Sight},
    pods::proc::ProcRoot,
};

pub(crate) use self::holder_process::Launch;
use self::holder_process::Link;
use crate::{kubernetes::events::Teller, telemetry::metrics::Metrics};

/// Descriptors that go with one message.
const TOGETHER: usize = 64;

/// Where the runtime's bundles are, and how the holder is started.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) bundle_dir: PathBuf,
    pub(crate) proc: ProcRoot,
    pub(crate) launch: Launch,
    pub(crate) teller: Teller,
}

/// The starts.
#[derive(Debug)]
pub(crate) struct Starts {
    bundle_dir: PathBuf,
    proc: ProcRoot,
    wishes: HashMap<PodUid, Vec<Start>>,
    /// Watched while there are wishes.
    bundles: Option<Bundles>,
    /// Bundles whose containers have no process yet.
    made: HashMap<ContainerId, Bundle>,
    marked: HashMap<ContainerId, Marked>,
    link: Link,
}

/// A container that the holder was told of.
#[derive(Debug)]
struct Marked {
    key: ContainerKey,
    name: String,
    init: Option<Pid>,
}

impl Marked {
    fn told(&self, told: Told) -> Event {
        Event::Start {
            key: self.key.clone(),
            name: self.name.clone(),
            told,
        }
    }
}

impl Starts {
    pub(crate) fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        Self {
            bundle_dir: settings.bundle_dir,
            proc: settings.proc,
            wishes: HashMap::new(),
            bundles: None,
            made: HashMap::new(),
            marked: HashMap::new(),
            link: Link::new(settings.launch, metrics, settings.teller),
        }
    }

    /// Waits for something to happen. May be dropped and called again at any
    /// time.
    pub(crate) async fn next(&mut self) -> Vec<Event> {
        let bundles = async {
            match &mut self.bundles {
                Some(bundles) => bundles.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            sights = bundles => match sights {
                Ok(sights) => self.saw(sights),
                Err(error) => {
                    tracing::error!(error = %chain(&error), "cannot see the runtime's bundles any more; starts are not held");
                    self.bundles = None;
                    Vec::new()
                }
            },
            word = self.link.next() => self.heard(word),
        }
    }

    /// Has these starts of a pod held, and no others of it.
    pub(crate) fn wish(&mut self, pod: &PodUid, starts: Vec<Start>) -> Vec<Event> {
        let over = self.marked.iter().filter(|(_id, marked)| {
            marked.key.pod == *pod && !starts.iter().any(|start| start.container == marked.name)
        });
        let over: Vec<ContainerId> = over.map(|(id, _marked)| id.clone()).collect();
        for id in &over {
            self.let_go(id);
        }
        if starts.is_empty() {
            self.wishes.remove(pod);
            if self.wishes.is_empty() {
                // Nothing is polled while nothing is to be held.
                self.bundles = None;
                self.made.clear();
            }
            return Vec::new();
        }
        self.link.want();
        self.wishes.insert(pod.clone(), starts);
        if self.bundles.is_none() {
            return self.watch();
        }
        let made = self.made.iter().filter(|(_id, bundle)| bundle.pod == *pod);
        let made: Vec<ContainerId> = made.map(|(id, _bundle)| id.clone()).collect();
        made.iter().flat_map(|id| self.consider(id)).collect()
    }

    /// A container has ended.
    pub(crate) fn ended(&mut self, key: &ContainerKey) {
        if self.marked.contains_key(&key.id) {
            self.let_go(&key.id);
        }
    }

    fn watch(&mut self) -> Vec<Event> {
        let opened = Bundles::open(&self.bundle_dir).and_then(|mut bundles| {
            let sights = bundles.unstarted()?;
            Ok((bundles, sights))
        });
        match opened {
            Ok((bundles, sights)) => {
                self.bundles = Some(bundles);
                self.saw(sights)
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "cannot watch the runtime's bundles; starts are not held");
                Vec::new()
            }
        }
    }

    fn saw(&mut self, sights: Vec<Sight>) -> Vec<Event> {
        let mut events = Vec::new();
        for sight in sights {
            tracing::trace!(?sight, "saw");
            match sight {
                Sight::Made(id, bundle) => {
                    self.made.insert(id.clone(), bundle);
                    events.extend(self.consider(&id));
                }
                Sight::Mounted(id, Ok(())) => events.extend(self.mark(&id)),
                Sight::Mounted(id, Err(reason)) => events.extend(self.unable(&id, reason)),
                Sight::Init(id, pid) => self.begun(&id, pid),
                Sight::Gone(id) => {
                    self.made.remove(&id);
                    if self.marked.contains_key(&id) {
                        self.let_go(&id);
                    }
                }
                Sight::Unreadable(id, reason) => {
                    tracing::warn!(container_id = %id, reason, "could not tell whose bundle this is; its start is not held");
                }
            }
        }
        events
    }

    /// Whether the start of a container whose bundle is made is wished for.
    fn wished(&self, id: &ContainerId) -> Option<(&Bundle, &Start)> {
        let bundle = self.made.get(id)?;
        let name = bundle.container.as_deref()?;
        let mut wishes = self.wishes.get(&bundle.pod)?.iter();
        Some((bundle, wishes.find(|start| start.container == name)?))
    }

    fn consider(&mut self, id: &ContainerId) -> Vec<Event> {
        if self.wished(id).is_none() || self.marked.contains_key(id) {
            return Vec::new();
        }
        let followed = self.bundles.as_mut().map(|bundles| bundles.follow(id));
        match followed {
            None => Vec::new(),
            Some(Ok(sights)) => self.saw(sights),
            Some(Err(error)) => self.unable(id, chain(&error)).into_iter().collect(),
        }
    }

    /// Its root is mounted, and nothing has been executed in it.
    fn mark(&mut self, id: &ContainerId) -> Option<Event> {
        let (bundle, start) = self.wished(id)?;
        let marked = Marked {
            key: ContainerKey {
                pod: bundle.pod.clone(),
                id: id.clone(),
            },
            name: start.container.clone(),
            init: None,
        };
        let order = Order::Mark {
            container: id.clone(),
            limit: start.limit,
        };
        let bundles = self.bundles.as_ref()?;
        let places = bundles
            .directory(id)
            .and_then(|directory| Ok([directory, bundles.root(id)?]));
        let told = match &places {
            Ok(places) => self.link.order(&order, &borrowed(places)),
            Err(error) => Err(chain(error)),
        };
        match told {
            Ok(()) => {
                self.marked.insert(id.clone(), marked);
                None
            }
            Err(reason) => Some(marked.told(Told::Unable(reason))),
        }
    }

    fn unable(&self, id: &ContainerId, reason: String) -> Option<Event> {
        let (bundle, start) = self.wished(id)?;
        Some(Event::Start {
            key: ContainerKey {
                pod: bundle.pod.clone(),
                id: id.clone(),
            },
            name: start.container.clone(),
            told: Told::Unable(reason),
        })
    }

    /// It has a process, and with it the mounts that its program may lie on.
    fn begun(&mut self, id: &ContainerId, pid: Pid) {
        self.made.remove(id);
        let Some(marked) = self.marked.get_mut(id) else {
            return;
        };
        marked.init = Some(pid);
        let volumes = match bundle::volumes(&self.proc, pid) {
            Ok(volumes) => volumes,
            // It has ended meanwhile, as a rule.
            Err(error) => {
                tracing::debug!(container_id = %id, error = %chain(&error), "could not look at a container's mounts; a program on a volume starts unheld");
                return;
            }
        };
        let order = Order::Volumes {
            container: id.clone(),
        };
        for volumes in volumes.chunks(TOGETHER) {
            if let Err(reason) = self.link.order(&order, &borrowed(volumes)) {
                tracing::debug!(container_id = %id, reason, "could not have volumes marked");
            }
        }
    }

    /// The holder answers when it has let it go.
    fn let_go(&mut self, id: &ContainerId) {
        let order = Order::LetGo {
            container: id.clone(),
        };
        let root = self.bundles.as_ref().map(|bundles| bundles.root(id));
        let root: Vec<OwnedFd> = root.into_iter().flatten().collect();
        if let Err(reason) = self.link.order(&order, &borrowed(&root)) {
            tracing::warn!(container_id = %id, reason, "could not have a start let go; it goes at its limit");
        }
    }
}

fn borrowed(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}
