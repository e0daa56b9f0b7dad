//! Readiness probes of sidecars, while connections to them wait.
//!
//! The kernel's socket tables show whether a port has a listener. The sidecar does not notice: a test connection would
//! make a database proxy connect to its database. An HTTP probe goes only to a port that has a listener. Nothing else in
//! the agent polls. The probes poll only while connections wait, and the less often the more of them run.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nix::sys::socket::AddressFamily;
use tokio::{sync::mpsc, task::AbortHandle};
use tracing::{Instrument, Span};
use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::SandboxId,
    hold::Probe,
    quit::outcome::Outcome,
    recipe::step::{Method, Request},
};
use usher_sys::net::{
    netns::Netns,
    sockdiag::{self, Sockets},
    tcp,
};

use crate::quit::ask;

/// The bounds of the polling interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_millis(50);
/// Each running probe adds this to the interval: 200 of them take some 5 % of a core.
const SHARE: Duration = Duration::from_micros(100);
/// Wait after a response that is not ready.
const NOT_READY: Duration = Duration::from_millis(10);
/// How long a response may take.
const RESPONSE: Duration = Duration::from_millis(500);

/// Wait after a failure, as without descriptors; doubles up to the second value.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// The number of running probes.
#[derive(Debug, Clone, Default)]
pub(super) struct Load(Arc<AtomicU32>);

impl Load {
    fn interval(&self) -> Duration {
        let shares = SHARE.saturating_mul(self.0.load(Ordering::Relaxed));
        shares.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    fn add(&self) -> LoadGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        LoadGuard(self.clone())
    }
}

/// Counts one probe until it is dropped.
struct LoadGuard(Load);

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The sandbox that a probe runs in.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) sandbox: SandboxId,
    pub(super) netns: Arc<Netns>,
    pub(super) span: Span,
}

/// A probe that runs until it succeeds or this is dropped.
#[derive(Debug)]
pub(super) struct RunningProbe(AbortHandle);

impl Drop for RunningProbe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RunningProbe {
    pub(super) fn start(
        target: Target,
        probe: Probe,
        load: &Load,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let Target {
            sandbox,
            netns,
            span,
        } = target;
        let guard = load.add();
        let run = async move {
            let mut backoff = MIN_BACKOFF;
            while let Err(error) = until_ready(&netns, &probe, &guard.0).await {
                if backoff == MIN_BACKOFF {
                    tracing::warn!(%sandbox, error = %chain(&error), "could not probe whether a sidecar is ready; retrying");
                }
                tokio::time::sleep(backoff).await;
                backoff = MAX_BACKOFF.min(backoff * 2);
            }
            drop(events.send(Event::Ready { sandbox, probe }).await);
        };
        Self(tokio::spawn(run.instrument(span)).abort_handle())
    }
}

async fn until_ready(netns: &Netns, probe: &Probe, load: &Load) -> Result<(), sockdiag::Error> {
    let mut sockets = Sockets::open(netns)?;
    let (Probe::Listens { port } | Probe::Answers { port, .. }) = *probe;
    loop {
        if sockets.listens(port)? {
            match probe {
                Probe::Listens { .. } => return Ok(()),
                Probe::Answers { path, .. } => {
                    let response = tokio::time::timeout(RESPONSE, is_ready(netns, port, path));
                    if response.await.unwrap_or(false) {
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

/// Sends the request to the listener of the port, on IPv4 first.
async fn is_ready(netns: &Netns, port: u16, path: &str) -> bool {
    let request = Request {
        method: Method::Get,
        port,
        path: path.to_owned(),
        headers: Vec::new(),
    };
    let loopbacks = [
        (AddressFamily::Inet, IpAddr::V4(Ipv4Addr::LOCALHOST)),
        (AddressFamily::Inet6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    for (family, loopback) in loopbacks {
        let Ok(fd) = netns.tcp_socket(family) else {
            return false;
        };
        match tcp::connect(fd, loopback, port).await {
            Ok(stream) => return ask(stream, &request).await == Outcome::Accepted,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(_unreachable) => return false,
        }
    }
    false
}
