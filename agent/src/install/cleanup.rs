//! `usher-agent --cleanup`: removes everything that usher has on the node. It is ready when nothing remains.
//!
//! [`crate::install::cleanup_cluster`] makes the DaemonSet run this on every node: a complete rollout means that all
//! nodes are clean. It needs neither the API server nor the kubelet.
//!
//! The cleanup deletes the tables of an earlier agent, so held connections continue with their next retransmission. It
//! runs again after a change of the CNI directories, and with a backoff until nothing remains. Failures are in the log
//! and in the response of `/readyz`.

mod serve;

use std::{sync::Arc, thread, time::Instant};

use anyhow::Context;
use tokio::{
    net::TcpListener,
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    sync::{oneshot, watch},
};
use usher_client::{
    backoff::Backoff,
    cleanup::{self, Places, RUNTIME_CALLS},
    error_chain::chain,
};
use usher_core::cleanup::Report;
use usher_sys::{files::directory::Places as Directories, pods::proc::ProcRoot};

use self::serve::State;
use crate::args::Args;

/// Cleans the node once, after the deletion of the agent's DaemonSet. The event loop and services have ended by then.
pub(crate) fn clean_after_deletion(args: &Args) {
    tracing::info!(
        "the DaemonSet was deleted, or the agent's credentials were; removing usher from the node"
    );
    let left = attempt(&places(args));
    for item in &left {
        tracing::warn!(
            item,
            "could not remove everything; run usher cleanup on the node"
        );
    }
    if left.is_empty() {
        tracing::info!("removed usher from the node");
    }
}

/// Cleans the node, and runs until SIGTERM or SIGINT.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.probes)
            .await
            .with_context(|| format!("listening on {}", args.probes))?;
        tracing::info!(probes = %listener.local_addr()?, "removing usher from the node");
        let state = watch::Sender::new(State::Working(Vec::new()));
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            served = serve::serve(listener, state.subscribe()) => served.context("serving health"),
            left = keep_clean(Arc::new(places(args)), &state) => left,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

/// The places in which an agent with these flags installs files.
fn places(args: &Args) -> Places {
    let given = |dir: &std::ffi::OsString| (!dir.is_empty()).then(|| dir.into());
    Places {
        conf_dirs: given(&args.cni.cni_conf_dir).into_iter().collect(),
        bin_dirs: given(&args.cni.cni_bin_dir).into_iter().collect(),
        run_dir: args.node.run_dir.clone(),
        log: args.cni.cni_log.clone(),
        proc: ProcRoot::new(&args.node.proc),
        grace_period: RUNTIME_CALLS,
    }
}

/// Cleans the node until nothing remains, and again after each change.
async fn keep_clean(places: Arc<Places>, state: &watch::Sender<State>) -> anyhow::Result<()> {
    let mut backoff = Backoff::default();
    loop {
        let watched: Vec<_> = places.conf_dirs.iter().chain(&places.bin_dirs).collect();
        let watched: Vec<_> = watched.iter().map(|path| path.as_path()).collect();
        // Watch before reading, so that no change is missed.
        let directories = Directories::open(&watched);
        let left = clean_once(Arc::clone(&places)).await?;
        let is_clean = left.is_empty();
        backoff.tried(Instant::now());
        enter(state, left);
        let due = tokio::time::sleep_until(backoff.due(Instant::now()).into());
        match directories {
            Ok(mut directories) if is_clean => match directories.changed().await {
                Ok(()) => backoff.rest(),
                Err(_unwatched) => due.await,
            },
            _ => due.await,
        }
    }
}

/// Makes one attempt on a separate thread, because it blocks. Returns what remains.
async fn clean_once(places: Arc<Places>) -> anyhow::Result<Vec<String>> {
    let (send, left) = oneshot::channel();
    let clean = move || {
        // Fails only during the shutdown.
        drop(send.send(attempt(&places)));
    };
    thread::Builder::new()
        .name("cleanup".to_owned())
        .spawn(clean)
        .context("starting the thread that cleans")?;
    left.await.context("the thread that cleans panicked")
}

fn attempt(places: &Places) -> Vec<String> {
    match cleanup::agent_lives(places) {
        Ok(true) => return vec!["an agent still runs on this node".to_owned()],
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(error = %chain(&error), "could not check whether an agent still runs");
        }
    }
    let report: Report = cleanup::clean(places);
    for line in &report.lines {
        tracing::info!(item = line.item.kind(), "{line}");
    }
    report.left().map(ToString::to_string).collect()
}

fn enter(state: &watch::Sender<State>, left: Vec<String>) {
    let next = if left.is_empty() {
        State::Clean
    } else {
        State::Working(left)
    };
    if *state.borrow() == next {
        return;
    }
    match &next {
        State::Clean => {
            tracing::info!("removed everything that usher had on this node but this process");
        }
        State::Working(left) => {
            tracing::warn!(left = left.len(), "could not remove everything; retrying");
        }
    }
    state.send_replace(next);
}
