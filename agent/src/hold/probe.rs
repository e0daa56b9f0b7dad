//! Finding out when a sidecar is ready, while connections to it wait.
//!
//! Whether somebody listens is looked up in the kernel's own tables: the
//! sidecar sees nothing of it, where a connection made to try would have a
//! database proxy dial its database. Only a sidecar that listens is asked for
//! more. This is the one place that looks again and again; it does so only
//! while something waits, and the more seldom the more sandboxes there are.

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

/// The shortest wait between two looks.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest.
const LONGEST: Duration = Duration::from_millis(50);
/// What each probe that is going on adds: 200 of them take some 5 % of a core.
const SHARE: Duration = Duration::from_micros(100);
/// Wait after an answer that says "not yet".
const NOT_YET: Duration = Duration::from_millis(10);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_millis(500);

/// Wait after a look that failed, as without descriptors; doubles each time.
const SOON: Duration = Duration::from_millis(100);
/// The longest.
const LATE: Duration = Duration::from_secs(2);

/// How many probes are going on.
#[derive(Debug, Clone, Default)]
pub(super) struct Load(Arc<AtomicU32>);

impl Load {
    fn interval(&self) -> Duration {
        let shares = SHARE.saturating_mul(self.0.load(Ordering::Relaxed));
        shares.clamp(SHORTEST, LONGEST)
    }

    fn enter(&self) -> Turn {
        self.0.fetch_add(1, Ordering::Relaxed);
        Turn(self.clone())
    }
}

/// One probe that is going on.
struct Turn(Load);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A probe that is going on until it has come true or this is dropped.
#[derive(Debug)]
pub(super) struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Watch {
    pub(super) fn start(
        sandbox: SandboxId,
        netns: Arc<Netns>,
        probe: Probe,
        load: &Load,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let turn = load.enter();
        let task = tokio::spawn(async move {
            let mut wait = SOON;
            while let Err(error) = until_ready(&netns, &probe, &turn.0).await {
                if wait == SOON {
                    tracing::warn!(%sandbox, error = %chain(&error), "could not look whether a sidecar is ready; trying again");
                }
                tokio::time::sleep(wait).await;
                wait = LATE.min(wait * 2);
            }
            drop(events.send(Event::Ready { sandbox, probe }).await);
        });
        Self(task.abort_handle())
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
                    let answer = tokio::time::timeout(ANSWER, says_ready(netns, port, path));
                    if answer.await.unwrap_or(false) {
                        return Ok(());
                    }
                    tokio::time::sleep(NOT_YET.max(load.interval())).await;
                }
            }
        } else {
            tokio::time::sleep(load.interval()).await;
        }
    }
}

/// Asks whoever listens at the port, on IPv4 first.
async fn says_ready(netns: &Netns, port: u16, path: &str) -> bool {
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
