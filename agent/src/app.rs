//! Wiring: two threads, each with a runtime of its own.
//!
//! The first decides (see [`crate::node`]); the second talks to the kubelet,
//! to the API server, and to whoever asks for metrics.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
};

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use usher_core::id::{NetnsId, Pid};
use usher_sys::{cgroup, netns::Netns, priority, proc::ProcRoot};

use crate::{
    api_server,
    args::{ApiServer, Args},
    attempt::Host,
    discovery::Discovery,
    http::{self, Readiness, Service},
    kubelet::Kubelet,
    metrics::Metrics,
    node::{Input, NodeLoop},
    run_dir,
    telemetry::chain,
};

/// The process that is in the host's own namespaces.
const HOST_INIT: Pid = Pid(1);
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
    let (fetches, wanted) = mpsc::channel(1);

    let runtime = runtime().context("starting the runtime that decides")?;
    let entered = runtime.enter();
    let (discovery, first) = Discovery::open(&root, proc, Arc::clone(&metrics))
        .with_context(|| format!("watching the pods below {}", root.display()))?;
    drop(entered);
    tracing::info!(cgroups = %root.display(), "watching pods");

    let beside = Beside {
        args,
        kubelet,
        wanted,
        inputs,
        metrics: Arc::clone(&metrics),
    };
    let deciding = NodeLoop::new(discovery, host, metrics, fetches);
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
    args: &'args Args,
    kubelet: Kubelet,
    wanted: mpsc::Receiver<()>,
    inputs: mpsc::Sender<Input>,
    metrics: Arc<Metrics>,
}

impl Beside<'_> {
    fn run(self) -> anyhow::Result<()> {
        let runtime = runtime().context("starting the runtime beside")?;
        runtime.block_on(self.serve())
    }

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
        self.inputs.send(Input::Node(known)).await?;
        let watch = async {
            match self.args.api_server {
                ApiServer::Off => {
                    readiness.node_known.store(true, Ordering::Release);
                    std::future::pending().await
                }
                ApiServer::InCluster => {
                    api_server::watch(
                        self.args.node_name.clone(),
                        self.args.run_dir.clone(),
                        self.inputs.clone(),
                        Arc::clone(&self.metrics),
                        Arc::clone(&readiness),
                    )
                    .await
                }
            }
        };
        let fetch = fetch(
            self.kubelet,
            self.wanted,
            self.inputs.clone(),
            Arc::clone(&readiness),
        );
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            served = http::serve(listener, service) => served.context("serving health and metrics"),
            watched = watch => watched.context("watching the Node"),
            () = fetch => Ok(()),
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    }

    fn last_known_annotations(&self) -> run_dir::Annotations {
        match run_dir::load(&self.args.run_dir) {
            Ok(known) => known.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "could not read the Node's last known annotations; observing until the API server tells"
                );
                run_dir::Annotations::default()
            }
        }
    }
}

/// Asks the kubelet whenever the loop that decides wants it to be asked.
async fn fetch(
    mut kubelet: Kubelet,
    mut wanted: mpsc::Receiver<()>,
    inputs: mpsc::Sender<Input>,
    readiness: Arc<Readiness>,
) {
    while wanted.recv().await.is_some() {
        let pods = kubelet.pods().await.map(|list| list.pods);
        if pods.is_some() {
            readiness.listed.store(true, Ordering::Release);
        }
        if inputs.send(Input::Pods(pods)).await.is_err() {
            return;
        }
    }
}
