//! Wiring: the event loop and the service thread, each with its own runtime.
//!
//! The event loop ([`crate::event_loop`]) runs on the main thread. The service thread exchanges requests with the
//! kubelet, the API server and clients, and records decisions. They share nothing but channels and counters.

mod services;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, watch},
};
use usher_client::{crash_point, error_chain::chain, platform, run_dir};
use usher_core::{
    Event,
    base::id::{NetnsId, Pid},
    metric::value::DiscoveryOperation,
};
use usher_sys::{
    net::netns::Netns,
    pods::{cgroup, proc::ProcRoot, reads::Reads},
    process::{child::Launch, priority},
};

use self::services::{End, Services};
use crate::{
    args::{ApiServer, Args, HOLDER, WORKER},
    event_loop::{Channels, Edges, NodeLoop, Requests},
    hold::cni_socket,
    install::{cleanup, cni},
    kubernetes::{
        events::{EventPublisher, EventSender},
        kubelet::Kubelet,
    },
    node::{config_file::ConfigFile, discovery::Discovery, kernel_features, privileges},
    quit::Host,
    serve::connection,
    start,
    telemetry::{
        decision_log::{Record, Recorder},
        metrics::Metrics,
        reporter::Reporter,
    },
};

/// The process that is in the host's own namespaces.
const HOST_INIT: Pid = Pid(1);
/// Inode of the initial network namespace since Linux 6.18
/// ([`NET_NS_INIT_INO`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/nsfs.h)). No other has it.
const INIT_NETNS: u64 = 0xEFFF_FFF9;

/// Namespaces that may wait until they are read. After a restart the first list names all of a node at once, and a pod
/// whose Namespace finds no place waits for its retry.
const NAMESPACES: usize = 1024;
/// Inputs that may wait for the event loop.
const INPUTS: usize = 64;
/// How long the start waits for the features of the kernel, which are probed within milliseconds.
const KERNEL_PROBE: Duration = Duration::from_millis(500);

/// Runs the agent until SIGTERM or SIGINT.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // Bind before any file or socket is touched: where another agent runs, binding its port fails. The address of the
    // metrics alone does not detect that agent, because a rollout may change it.
    let [probes, http] = [args.probes, args.http].map(|address| {
        connection::listen(address).with_context(|| format!("listening on {address}"))
    });
    let (probes, http) = (probes?, http?);
    let (reporter, publisher) = reporter(args);
    let kubelet = Kubelet::new(&args.node.kubelet, reporter.clone())?;
    let host = host(args)?;
    let mut config = ConfigFile::new(
        args.node.config.clone(),
        args.node.run_dir.clone(),
        reporter.clone(),
    );
    let loaded = config.load();
    let recorder = Recorder::open(&args.node.run_dir, reporter.clone());
    let plugin =
        cni::Settings::from_args(&args.cni).context("reading the settings of the CNI plugin")?;
    let (inputs, received_inputs) = mpsc::channel(INPUTS);
    let (pods, pod_requests) = mpsc::channel(1);
    let (namespaces, namespace_requests) = mpsc::channel(NAMESPACES);
    let (plugin_needed, plugin_wanted) = watch::channel(false);
    // The channel of records has no limit, but stays short: while the service thread is stuck, no pod list arrives, so
    // each known pod has only a few decisions.
    let (records, received_records) = mpsc::unbounded_channel();
    let channels = Channels {
        inputs: received_inputs,
        requests: Requests {
            pods,
            namespaces,
            plugin: plugin_needed,
        },
        records,
    };
    let runtime = runtime().context("starting the event loop's runtime")?;
    let (edges, events) = runtime.block_on(edges(args, host, &reporter))?;
    let services = Services {
        args,
        probes,
        http,
        plugin,
        // Detected here: the service thread has no permission to read the host's root directory.
        platform: platform::detect(&args.node.kubelet.host_root),
        kubelet,
        reads: watch::Sender::new(loaded.config.reads()),
        config,
        inputs,
        pod_requests,
        namespace_requests,
        plugin_wanted,
        publisher,
        reporter: reporter.clone(),
        recorder: recorder.handle(),
        started: Instant::now(),
    };
    let event_loop = NodeLoop::new(edges, channels, reporter, loaded);
    let end = thread::scope(|scope| {
        let service_thread = thread::Builder::new()
            .name("services".to_owned())
            .spawn_scoped(scope, move || serve(services, recorder, received_records))
            .context("starting the service thread")?;
        // Raised after the start of the service thread, which would inherit the priority.
        if let Err(error) = priority::raise() {
            tracing::info!(error = %chain(&error), "kept the ordinary priority; quits take longer on a busy node");
        }
        privileges::drop_for_event_loop();
        // A signal ends the service thread. That closes the inputs, which ends the event loop. An event loop that
        // cannot watch pods any more closes its requests, which ends the service thread.
        let looped = runtime.block_on(event_loop.run(events));
        let served = service_thread.join();
        looped.context("watching the cgroup tree")?;
        served.unwrap_or_else(|_panic| anyhow::bail!("the service thread panicked"))
    })?;
    // This ends the tasks that keep the plugin's socket open.
    drop(runtime);
    if end == End::Deleted {
        cleanup::clean_after_deletion(args);
    }
    Ok(())
}

/// The reporter of all components. The publisher is None if the agent works without an API server.
fn reporter(args: &Args) -> (Reporter, Option<EventPublisher>) {
    let metrics = Arc::new(Metrics::new());
    let (events, publisher) = match args.api_server {
        ApiServer::Off => (EventSender::disabled(&args.node_name), None),
        ApiServer::InCluster => {
            let (events, publisher) = EventPublisher::new(&args.node_name, Arc::clone(&metrics));
            (events, Some(publisher))
        }
    };
    (Reporter::new(metrics, events), publisher)
}

fn host(args: &Args) -> anyhow::Result<Host> {
    let proc = ProcRoot::new(&args.node.proc);
    let (netns, is_certain) = host_netns(&proc)?;
    Ok(Host {
        proc,
        netns,
        is_certain,
    })
}

/// Opens what the event loop watches, and returns the events of existing pods. Must run in the event loop's runtime.
async fn edges(
    args: &Args,
    host: Host,
    reporter: &Reporter,
) -> anyhow::Result<(Edges, Vec<Event>)> {
    let node = &args.node;
    let root = cgroup::locate(&node.cgroup_root)?;
    let metrics = &reporter.metrics;
    let mut kernel = kernel_features::probe(node.bundle_dir.clone(), Arc::clone(metrics))
        .context("starting the thread that probes the kernel")?;
    // Probe before the walk, and before the agent serves: a pod that starts later is observed
    // from its first event.
    let features = tokio::time::timeout(KERNEL_PROBE, &mut kernel).await;
    let features = features.ok().and_then(Result::ok);
    let reads = reads(metrics);
    let opened = Discovery::open(&root, host.proc.clone(), reads.clone(), Arc::clone(metrics));
    let (discovery, walked) =
        opened.with_context(|| format!("watching the pods below {}", root.display()))?;
    tracing::info!(cgroups = %root.display(), "watching pods");
    let socket = node.run_dir.join(run_dir::CNI_SOCKET);
    let announcements = cni_socket::listen(socket, Arc::clone(metrics));
    let starts = start::Settings {
        bundle_dir: node.bundle_dir.clone(),
        runtime_state_dirs: args.runtime_state_dirs.clone(),
        proc: host.proc.clone(),
        reads,
        launch: Launch {
            role: HOLDER,
            flags: args.log.flags(),
            variables: Vec::new(),
        },
    };
    let flags = [
        vec!["--proc".to_owned(), node.proc.display().to_string()],
        args.log.flags(),
    ];
    let edges = Edges {
        kernel: features.is_none().then_some(kernel),
        discovery,
        announcements,
        starts,
        host,
        worker: Launch {
            role: WORKER,
            flags: flags.concat(),
            variables: crash_point::variables().into_iter().collect(),
        },
    };
    let events = features.map(Event::Kernel).into_iter().chain(walked);
    Ok((edges, events.collect()))
}

/// Runs the services, and records what the event loop decides. Runs on the service thread.
fn serve(
    services: Services<'_>,
    mut recorder: Recorder,
    mut records: mpsc::UnboundedReceiver<Record>,
) -> anyhow::Result<End> {
    privileges::drop_all();
    let runtime = runtime().context("starting the runtime of the service thread")?;
    let served = runtime.block_on(async {
        tokio::select! {
            served = services.serve() => served,
            () = recorder.run(&mut records) => Ok(End::Stopped),
        }
    });
    // This drops every sender of inputs, so the event loop ends. The recorder still records its last decisions.
    drop(runtime);
    recorder.drain(&mut records);
    served
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Reads of processes, on threads without the event loop's priority and capabilities.
fn reads(metrics: &Arc<Metrics>) -> Reads {
    let prepare = || {
        privileges::drop_for_reads();
        if let Err(error) = priority::reset() {
            tracing::warn!(error = %chain(&error), "a thread that reads processes has the event loop's priority");
        }
    };
    let metrics = Arc::clone(metrics);
    Reads::new(prepare, move |pod| {
        metrics.discovery_errors.inc(&DiscoveryOperation::Proc);
        tracing::warn!(
            pod_uid = %pod,
            "a read of a pod's processes takes longer than 10 s; its containers are followed when it returns"
        );
    })
}

/// The host's own network namespace, and whether that is certain.
fn host_netns(proc: &ProcRoot) -> anyhow::Result<(NetnsId, bool)> {
    let error = match Netns::of_process(proc, HOST_INIT) {
        Ok(netns) => return Ok((netns.id(), true)),
        Err(error) => error,
    };
    // Some machines hide pid 1 even from root. With hostNetwork the agent's namespace is the host's.
    let own = Netns::of_process(proc, Pid(i32::try_from(std::process::id())?))?.id();
    let is_certain = own.ino == INIT_NETNS;
    if is_certain {
        tracing::info!(error = %chain(&error), "used the agent's own network namespace as the host's, because it is the initial one");
    } else {
        tracing::error!(
            error = %chain(&error),
            "observing whatever the Node's mode: the host's network namespace is unknown. The agent needs hostPID and SYS_PTRACE"
        );
    }
    Ok((own, is_certain))
}
