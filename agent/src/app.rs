//! Wiring: two threads, each with a runtime of its own.
//!
//! The first decides (see [`crate::node`]); the second talks to the kubelet,
//! to the API server, and to whoever asks for metrics.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
};

use anyhow::Context;
use kube::Client;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use usher_core::{
    Event,
    config::Config,
    id::{NetnsId, Pid},
    recipe::Reads,
};
use usher_sys::{cgroup, netns::Netns, priority, proc::ProcRoot};

use crate::{
    announcements::{self, Announcement},
    api_server,
    args::{ApiServer, Args},
    attempt::Host,
    config_file::ConfigFile,
    discovery::Discovery,
    http::{self, Readiness, Service},
    installer::{self, Installer},
    kernel,
    kubelet::Kubelet,
    metrics::Metrics,
    namespaces::Namespaces,
    node::{Input, NodeLoop, Sources, Wishes},
    recorder::{Record, Recorder},
    run_dir,
    starts::{self, Launch},
    telemetry::chain,
};

/// The process that is in the host's own namespaces.
const HOST_INIT: Pid = Pid(1);
/// Namespaces that may wait to be asked for.
const NAMESPACES: usize = 64;
/// Decisions that may wait to be written down; more wait where they were made.
const RECORDS: usize = 1024;
/// Inputs that may wait for the loop that decides.
const INPUTS: usize = 64;

/// Runs the agent until SIGTERM or SIGINT.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    raise_file_limit();
    let metrics = Arc::new(Metrics::new());
    let kubelet = Kubelet::new(args, Arc::clone(&metrics))?;
    let proc = ProcRoot::new(&args.proc);
    let host = Host {
        netns: host_netns(&proc)?,
        proc: proc.clone(),
    };
    let root = cgroup::locate(&args.cgroup_root)?;
    let (inputs, receiver) = mpsc::channel(INPUTS);
    let (records, recorded) = mpsc::channel(RECORDS);
    let (pods, wanted_pods) = mpsc::channel(1);
    let (namespaces, wanted_namespaces) = mpsc::channel(NAMESPACES);
    let run_dir = args.run_dir.clone();
    let mut config = ConfigFile::new(args.config.clone(), run_dir, Arc::clone(&metrics));
    let loaded = config.first();
    let recorder = Recorder::open(&args.run_dir, Arc::clone(&metrics));

    let plugin = installer::Settings::of(&args.cni).context("where the CNI plugin goes")?;

    let runtime = runtime().context("starting the runtime that decides")?;
    let entered = runtime.enter();
    let (discovery, first) = Discovery::open(&root, proc, Arc::clone(&metrics))
        .with_context(|| format!("watching the pods below {}", root.display()))?;
    drop(entered);
    tracing::info!(cgroups = %root.display(), "watching pods");

    let (wants_plugin, plugin_wanted) = watch::channel(false);
    let services = Services {
        args,
        plugin,
        plugin_wanted,
        kubelet,
        reads: watch::Sender::new(loaded.config.reads()),
        config,
        wanted_pods,
        wanted_namespaces,
        inputs,
        metrics: Arc::clone(&metrics),
    };
    let beside = Beside {
        recorder,
        records: recorded,
        services,
    };
    let wishes = Wishes {
        pods,
        namespaces,
        plugin: wants_plugin,
    };
    let entered = runtime.enter();
    let announcements = announcements(args, &metrics);
    drop(entered);
    let mut first = first;
    let features = kernel::features(&args.bundle_dir, &metrics);
    first.insert(0, Event::Kernel(features));
    let starts = starts::Settings {
        bundle_dir: args.bundle_dir.clone(),
        proc: host.proc.clone(),
        launch: Launch {
            flags: args.log.flags(),
        },
    };
    let sources = Sources {
        discovery,
        announcements,
        starts,
    };
    let deciding = NodeLoop::new(sources, host, records, metrics, loaded, wishes);
    thread::scope(|scope| {
        let beside = thread::Builder::new()
            .name("beside".to_owned())
            .spawn_scoped(scope, move || beside.run())
            .context("starting the second thread")?;
        // After the second thread has been made, which would inherit it.
        if let Err(error) = priority::raise() {
            tracing::info!(%error, "decides at ordinary priority: quits take longer on a busy node");
        }
        // The second thread ends on a signal, and with it the inputs of the
        // first; the first ends when it cannot see pods any more, and with it
        // the wishes that the second waits for.
        let decided = runtime.block_on(deciding.run(first, receiver));
        let served = beside.join();
        decided.context("watching the cgroup tree")?;
        served.unwrap_or_else(|_panic| anyhow::bail!("the second thread panicked"))
    })
}

/// Listens for the CNI plugin. Where that is not possible pods start unheld.
fn announcements(args: &Args, metrics: &Arc<Metrics>) -> mpsc::Receiver<Announcement> {
    let path = args.run_dir.join(run_dir::CNI_SOCKET);
    match announcements::listen(&path, Arc::clone(metrics)) {
        Ok(announcements) => announcements,
        Err(error) => {
            tracing::warn!(error = %chain(&error), "cannot hear the CNI plugin; pods start unheld");
            mpsc::channel(1).1
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The host's own network namespace.
fn host_netns(proc: &ProcRoot) -> anyhow::Result<NetnsId> {
    let error = match Netns::of_process(proc, HOST_INIT) {
        Ok(netns) => return Ok(netns.id()),
        Err(error) => error,
    };
    // Some machines hide their first process even from root. With hostNetwork
    // our own namespace is the host's.
    tracing::warn!(
        error = %chain(&error),
        "took the agent's own network namespace for the host's"
    );
    let own = i32::try_from(std::process::id())?;
    Ok(Netns::of_process(proc, Pid(own))?.id())
}

/// Every container takes a pidfd; the usual soft limit of 1024 is for programs
/// that use select.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_soft, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
}

/// What runs on the second thread.
struct Beside<'args> {
    recorder: Recorder,
    records: mpsc::Receiver<Record>,
    services: Services<'args>,
}

/// What talks to others.
struct Services<'args> {
    args: &'args Args,
    /// None where no CNI plugin is to be installed.
    plugin: Option<installer::Settings>,
    /// Whether the Node wants it.
    plugin_wanted: watch::Receiver<bool>,
    kubelet: Kubelet,
    /// What the configuration in force looks at in pods.
    reads: watch::Sender<Reads>,
    config: ConfigFile,
    wanted_pods: mpsc::Receiver<()>,
    wanted_namespaces: mpsc::Receiver<String>,
    inputs: mpsc::Sender<Input>,
    metrics: Arc<Metrics>,
}

impl Beside<'_> {
    fn run(self) -> anyhow::Result<()> {
        let runtime = runtime().context("starting the runtime beside")?;
        let Self {
            mut recorder,
            mut records,
            services,
        } = self;
        let served = runtime.block_on(async {
            tokio::select! {
                served = services.serve() => served,
                () = recorder.run(&mut records) => Ok(()),
            }
        });
        // With it go all ends of the inputs here, so the first thread ends;
        // what it still decided is written down.
        drop(runtime);
        recorder.drain(&mut records);
        served
    }
}

impl Services<'_> {
    async fn serve(self) -> anyhow::Result<()> {
        let readiness = Arc::new(Readiness::default());
        let listener = TcpListener::bind(self.args.http)
            .await
            .with_context(|| format!("listening on {}", self.args.http))?;
        tracing::info!(http = %listener.local_addr()?, "serving health and metrics");
        let service = Service {
            metrics: Arc::clone(&self.metrics),
            readiness: Arc::clone(&readiness),
            inputs: self.inputs.clone(),
        };
        let known = self.last_known_annotations();
        let known = known.map_or(Input::NodeUnknown, Input::Node);
        self.inputs.send(known).await?;
        let client = match self.args.api_server {
            ApiServer::Off => None,
            ApiServer::InCluster => Some(Client::try_default().await?),
        };
        let node = async {
            let Some(client) = client.clone() else {
                readiness.node_known.store(true, Ordering::Release);
                return std::future::pending().await;
            };
            api_server::watch(
                client,
                self.args.node_name.clone(),
                self.args.run_dir.clone(),
                self.inputs.clone(),
                Arc::clone(&self.metrics),
                Arc::clone(&readiness),
            )
            .await
        };
        let run_dir = self.args.run_dir.clone();
        let namespaces = Namespaces::new(run_dir, Arc::clone(&self.metrics)).serve(
            client.clone(),
            self.wanted_namespaces,
            self.inputs.clone(),
        );
        let fetch = fetch(
            self.kubelet,
            self.reads.subscribe(),
            self.wanted_pods,
            self.inputs.clone(),
            Arc::clone(&readiness),
        );
        let config = self.config.watch(async |config: Arc<Config>| {
            // Before the list that the new configuration asks for.
            self.reads.send_replace(config.reads());
            // Nobody listens only when the agent is ending.
            drop(self.inputs.send(Input::Config(config)).await);
        });
        let plugin = async {
            let Some(settings) = self.plugin.clone() else {
                return std::future::pending().await;
            };
            let mut wanted = self.plugin_wanted.clone();
            // What is there stays as it is until somebody says what the Node wants.
            if wanted.changed().await.is_err() {
                return std::future::pending().await;
            }
            Installer::new(settings, wanted, Arc::clone(&self.metrics))
                .serve()
                .await;
        };
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            served = http::serve(listener, service) => served.context("serving health and metrics"),
            watched = node => watched.context("watching the Node"),
            () = fetch => Ok(()),
            () = namespaces => Ok(()),
            () = config => Ok(()),
            () = plugin => Ok(()),
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    }

    fn last_known_annotations(&self) -> Option<run_dir::Annotations> {
        match run_dir::load(&self.args.run_dir, run_dir::NODE_ANNOTATIONS) {
            Ok(known) => known,
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "could not read the Node's last known annotations; observing until the API server tells"
                );
                None
            }
        }
    }
}

/// Asks the kubelet whenever the loop that decides wants it to be asked.
async fn fetch(
    mut kubelet: Kubelet,
    reads: watch::Receiver<Reads>,
    mut wanted: mpsc::Receiver<()>,
    inputs: mpsc::Sender<Input>,
    readiness: Arc<Readiness>,
) {
    while wanted.recv().await.is_some() {
        let reads = reads.borrow().clone();
        let pods = kubelet.pods(&reads).await.map(|list| list.pods);
        if pods.is_some() {
            readiness.listed.store(true, Ordering::Release);
        }
        if inputs.send(Input::Pods(pods)).await.is_err() {
            return;
        }
    }
}
