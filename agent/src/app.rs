//! Wiring: two threads, each with a runtime of its own.
//!
//! The first decides (see [`crate::event_loop`]); the second talks to the kubelet,
//! to the API server, and to whoever asks for metrics.

mod service_thread;
mod services;

use std::{sync::Arc, thread, time::Instant};

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, watch},
};
use usher_client::{error_chain::chain, run_dir};
use usher_core::{
    Event,
    base::id::{NetnsId, Pid},
};
use usher_sys::{
    net::netns::Netns,
    pods::{cgroup, proc::ProcRoot},
    process::priority,
};

use self::{service_thread::Beside, services::Services};
use crate::{
    args::{ApiServer, Args},
    event_loop::{NodeLoop, Sources, Wishes},
    hold::cni_socket,
    install::cni,
    kubernetes::{
        events::{Events, Teller},
        kubelet::Kubelet,
    },
    node::{config_file::ConfigFile, discovery::Discovery, kernel_features, privileges},
    quit::{Host, Reads},
    serve::http,
    start::{self, Launch},
    telemetry::{decision_log::Recorder, metrics::Metrics},
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
    // First of all: where another agent lives it has the port, and keeps its sockets and files.
    let http = http::listen(args.http).with_context(|| format!("listening on {}", args.http))?;
    let metrics = Arc::new(Metrics::new());
    let (teller, events) = match args.api_server {
        ApiServer::Off => (Teller::mute(&args.node_name), None),
        ApiServer::InCluster => {
            let (teller, events) = Events::new(&args.node_name, Arc::clone(&metrics));
            (teller, Some(events))
        }
    };
    let kubelet = Kubelet::new(&args.node.kubelet, Arc::clone(&metrics), teller.clone())?;
    let proc = ProcRoot::new(&args.node.proc);
    let host = Host {
        netns: host_netns(&proc)?,
        proc: proc.clone(),
        reads: Reads::default(),
    };
    let root = cgroup::locate(&args.node.cgroup_root)?;
    let (inputs, receiver) = mpsc::channel(INPUTS);
    let (records, recorded) = mpsc::channel(RECORDS);
    let (pods, wanted_pods) = mpsc::channel(1);
    let (namespaces, wanted_namespaces) = mpsc::channel(NAMESPACES);
    let run_dir = args.node.run_dir.clone();
    let mut config = ConfigFile::new(
        args.node.config.clone(),
        run_dir,
        Arc::clone(&metrics),
        teller.clone(),
    );
    let loaded = config.first();
    let recorder = Recorder::open(&args.node.run_dir, Arc::clone(&metrics), teller.clone());

    let plugin = cni::Settings::of(&args.cni).context("where the CNI plugin goes")?;

    let runtime = runtime().context("starting the runtime that decides")?;
    let entered = runtime.enter();
    let (discovery, first) = Discovery::open(&root, proc, Arc::clone(&metrics))
        .with_context(|| format!("watching the pods below {}", root.display()))?;
    drop(entered);
    tracing::info!(cgroups = %root.display(), "watching pods");

    let (wants_plugin, plugin_wanted) = watch::channel(false);
    let services = Services {
        args,
        http,
        plugin,
        plugin_wanted,
        kubelet,
        reads: watch::Sender::new(loaded.config.reads()),
        config,
        wanted_pods,
        wanted_namespaces,
        inputs,
        events,
        teller: teller.clone(),
        metrics: Arc::clone(&metrics),
        desk: recorder.desk(),
        begun: Instant::now(),
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
    let socket = args.node.run_dir.join(run_dir::CNI_SOCKET);
    let announcements = cni_socket::listen(socket, Arc::clone(&metrics));
    drop(entered);
    let mut first = first;
    let features = kernel_features::features(&args.node.bundle_dir, &metrics);
    first.insert(0, Event::Kernel(features));
    let starts = start::Settings {
        bundle_dir: args.node.bundle_dir.clone(),
        proc: host.proc.clone(),
        launch: Launch {
            flags: args.log.flags(),
        },
        teller: teller.clone(),
    };
    let sources = Sources {
        discovery,
        announcements,
        starts,
        teller,
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
        privileges::deciding();
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
