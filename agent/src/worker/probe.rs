//! Readiness probes of sidecars, while connections to them wait.
//!
//! The kernel's socket tables show whether a port has a listener. A test connection would have side effects: a
//! database proxy would connect to its database. An HTTP probe goes only to a port with a listener. Nothing else in
//! the agent polls. Probes poll only while connections wait, and the interval grows with the number of probes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::{AbortHandle, block_in_place};
use usher_client::error_chain::chain;
use usher_core::{
    hold::Probe,
    recipe::step::{Method, Request},
    worker::message::{JobId, Reply},
};
use usher_sys::net::{
    netns::Netns,
    sockdiag::{self, Sockets},
};

use super::{
    lanes::{Kind, Lane, Lanes},
    replies::Replies,
    request,
};

/// The bounds of the polling interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_millis(50);
/// The interval per running probe: 200 of them take some 5 % of a core.
const SHARE: Duration = Duration::from_micros(100);
/// Delay after a response that is not ready.
const NOT_READY: Duration = Duration::from_millis(10);
/// How long a response may take.
const RESPONSE: Duration = Duration::from_millis(500);

/// Delay after a failure, for example without free descriptors; doubles up to the second value.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// A system call that takes longer is slow.
const SLOW: Duration = Duration::from_millis(2);

/// The load by all probes of the node.
#[derive(Debug, Clone, Default)]
pub(super) struct Load {
    running: Arc<AtomicU32>,
    /// Whether the last look at a socket table was slow.
    is_slow: Arc<AtomicBool>,
}

impl Load {
    fn interval(&self) -> Duration {
        let shares = SHARE.saturating_mul(self.running.load(Ordering::Relaxed));
        shares.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    fn add(&self) -> LoadGuard {
        self.running.fetch_add(1, Ordering::Relaxed);
        LoadGuard(self.clone())
    }

    /// Looks at a socket table. Before Linux 6.9 a look waits for the looks of every other process of the node
    /// ([`sock_diag_mutex`](https://github.com/torvalds/linux/blob/v6.1/net/core/sock_diag.c)), and any pod can look all
    /// the time. Once one was slow, the following ones run beside the other tasks. That is not the normal case, because it
    /// wakes another thread for each look.
    fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let seen = match self.is_slow.load(Ordering::Relaxed) {
            true => block_in_place(look),
            false => look(),
        };
        self.is_slow
            .store(start.elapsed() > SLOW, Ordering::Relaxed);
        seen
    }
}

/// Counts one probe until it is dropped.
struct LoadGuard(Load);

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Dropping it stops the probe.
#[derive(Debug)]
pub(super) struct RunningProbe(AbortHandle);

impl Drop for RunningProbe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) netns: Arc<Netns>,
    pub(super) lane: Arc<Lane>,
    pub(super) lanes: Lanes,
    pub(super) replies: Replies,
}

impl RunningProbe {
    pub(super) fn start(id: JobId, target: Target, probe: Probe, load: &Load) -> Self {
        let guard = load.add();
        let run = async move {
            let mut backoff = MIN_BACKOFF;
            while let Err(error) = target.until_ready(&probe, &guard.0).await {
                if backoff == MIN_BACKOFF {
                    tracing::warn!(netns = %target.netns.id(), error = %chain(&error), "could not probe whether a sidecar is ready; retrying");
                }
                tokio::time::sleep(backoff).await;
                backoff = MAX_BACKOFF.min(backoff * 2);
            }
            target.replies.send(Reply::ProbeSucceeded { id }).await;
        };
        Self(tokio::spawn(run).abort_handle())
    }
}

impl Target {
    async fn until_ready(&self, probe: &Probe, load: &Load) -> Result<(), sockdiag::Error> {
        let mut sockets = load.look(|| Sockets::open(&self.netns))?;
        let (Probe::Listens { port } | Probe::Answers { port, .. }) = *probe;
        loop {
            if load.look(|| sockets.listens(port))? {
                match probe {
                    Probe::Listens { .. } => return Ok(()),
                    Probe::Answers { path, .. } => {
                        if self.is_ready(port, path).await {
                            return Ok(());
                        }
                        tokio::time::sleep(NOT_READY.max(load.interval())).await;
                    }
                }
            } else {
                tokio::time::sleep(load.interval()).await;
            }
        }
    }

    /// Sends the request by [`Lanes::run`], because the pod's rules may delay it.
    async fn is_ready(&self, port: u16, path: &str) -> bool {
        let request = Request {
            method: Method::Get,
            port,
            path: path.to_owned(),
            headers: Vec::new(),
        };
        let (netns, lane) = (Arc::clone(&self.netns), Arc::clone(&self.lane));
        let calls = move || {
            let _rules = lane.rules.check(&netns)?;
            Ok(request::is_ready(&netns, &request, RESPONSE))
        };
        let (lanes, lane) = (self.lanes.clone(), Arc::clone(&self.lane));
        // A task of its own: the end of the probe does not end the watch of a stuck call.
        let request =
            tokio::spawn(async move { lanes.run(&lane, Kind::Request, RESPONSE, calls).await });
        match request.await.ok().flatten() {
            Some(Ok(is_ready)) => is_ready,
            Some(Err(reason)) => {
                self.lanes.report_quarantine(self.lane.netns, reason).await;
                // The agent fails this probe after the report.
                std::future::pending().await
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use tokio::runtime::Builder;

    use super::*;

    /// A look ends once another task of the same thread runs.
    #[test]
    fn slow_looks_stop_no_other_task() {
        const LIMIT: Duration = Duration::from_secs(20);
        let runtime = Builder::new_multi_thread().worker_threads(1).build();
        let load = Load::default();
        load.look(|| thread::sleep(SLOW * 2));
        let (ran, other) = mpsc::channel();
        let looks = async move {
            tokio::spawn(async move { ran.send(()) });
            load.look(|| other.recv_timeout(LIMIT))
        };
        let runtime = runtime.unwrap();
        runtime.block_on(runtime.spawn(looks)).unwrap().unwrap();
    }
}
