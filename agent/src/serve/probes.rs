//! `/healthz` and `/readyz`, on a separate listener and thread.
//!
//! The listener is on loopback, where the kubelet probes it, so that a flood on the metrics port cannot delay probes.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::{
    runtime::Builder,
    sync::{
        Notify, mpsc,
        oneshot::{self, error::TryRecvError},
    },
};
use usher_client::error_chain::chain;

use super::connection::{self, Clients};
use crate::event_loop::Input;

/// How long the event loop and the service thread may take to reply to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The steps of the start that the agent's readiness waits for.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// The kubelet has listed its pods.
    pub(crate) listed: AtomicBool,
    /// The Node's annotations have been received, or the agent works without an API server.
    pub(crate) node_known: AtomicBool,
    /// The CNI plugin meets the needs of the Node's mode, or its installation has failed.
    pub(crate) plugin_settled: AtomicBool,
    /// Why the CNI plugin does not meet the needs of the Node's mode; None if it does.
    plugin: Mutex<Option<String>>,
    /// Notifies one waiting task that a field here, or the Node, may have changed.
    pub(crate) changed: Notify,
}

impl Readiness {
    /// Whether the start is complete.
    pub(crate) fn is_complete(&self) -> bool {
        let all = [&self.listed, &self.node_known, &self.plugin_settled];
        all.iter().all(|so| so.load(Ordering::Acquire))
    }

    /// Records a list of the kubelet, and returns whether it is the first one. Later lists do not notify: after each
    /// notification the agent gets the whole Node to look for the startup taint.
    pub(crate) fn note_list(&self) -> bool {
        let is_first = !self.listed.swap(true, Ordering::AcqRel);
        if is_first {
            self.changed.notify_one();
        }
        is_first
    }

    pub(crate) fn set_plugin(&self, why: Option<String>) {
        *self.plugin.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// The missing steps, for `/readyz`.
    pub(crate) fn waits(&self) -> Vec<String> {
        let mut waits = Vec::new();
        if !self.listed.load(Ordering::Acquire) {
            waits.push("the kubelet has not listed its pods yet".to_owned());
        }
        if !self.node_known.load(Ordering::Acquire) {
            waits.push("the Node's annotations have not been received yet".to_owned());
        }
        let plugin = self.plugin.lock();
        waits.extend(plugin.unwrap_or_else(PoisonError::into_inner).clone());
        waits
    }
}

/// A request for a reply, which proves that a thread still works.
pub(crate) type Ping = oneshot::Sender<()>;

/// Dependencies of the probes. The sender is weak, so that probes do not delay the agent's shutdown.
#[derive(Debug, Clone)]
pub(crate) struct Probes {
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) event_loop: mpsc::WeakSender<Input>,
    pub(crate) service_thread: Arc<Mutex<ServiceThread>>,
}

/// The liveness of the service thread, from its replies to pings.
#[derive(Debug)]
pub(crate) struct ServiceThread {
    pings: mpsc::Sender<Ping>,
    /// The last ping, if it has no reply yet.
    pending: Option<(Instant, oneshot::Receiver<()>)>,
}

impl ServiceThread {
    /// Returns the state, and the channel of pings for [`reply_to_pings`].
    pub(crate) fn new() -> (Arc<Mutex<Self>>, mpsc::Receiver<Ping>) {
        let (pings, received) = mpsc::channel(1);
        let pending = None;
        (Arc::new(Mutex::new(Self { pings, pending })), received)
    }

    /// Sends a ping, and returns whether the last one was answered or is not overdue. Does not wait for the reply, so
    /// that a busy thread does not delay the probe.
    fn is_alive(&mut self, now: Instant) -> bool {
        if let Some((sent, reply)) = &mut self.pending {
            match reply.try_recv() {
                Ok(()) => {}
                Err(TryRecvError::Empty) => return now.duration_since(*sent) < PING_TIMEOUT,
                Err(TryRecvError::Closed) => return false,
            }
        }
        let (ping, reply) = oneshot::channel();
        self.pending = Some((now, reply));
        self.pings.try_send(ping).is_ok()
    }
}

/// Whether the listener of the probes may have this address.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|error| format!("{error}"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("not a loopback address; the kubelet probes 127.0.0.1".to_owned())
    }
}

impl Probes {
    /// Starts the probes' thread with the capabilities of the calling thread. It ends with the process.
    pub(crate) fn spawn(self, listener: TcpListener) -> anyhow::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting the runtime of the probes")?;
        let router = Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .with_state(self);
        let serve = async {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => connection::serve(listener, router, Clients::Node).await,
                Err(error) => tracing::error!(error = %chain(&error), "could not serve probes"),
            }
        };
        thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || runtime.block_on(serve))
            .context("starting the thread of the probes")?;
        Ok(())
    }
}

pub(crate) async fn reply_to_pings(mut pings: mpsc::Receiver<Ping>) {
    while let Some(ping) = pings.recv().await {
        if ping.send(()).is_err() {
            tracing::debug!("a probe stopped waiting");
        }
    }
}

/// Pings both threads, and also responds if one of them is stuck.
async fn healthz(State(probes): State<Probes>) -> (StatusCode, &'static str) {
    let (ping, replied) = oneshot::channel();
    let event_loop = async {
        let inputs = probes.event_loop.upgrade()?;
        inputs.send(Input::Ping(ping)).await.ok()?;
        replied.await.ok()
    };
    let event_loop = tokio::time::timeout(PING_TIMEOUT, event_loop).await;
    if !matches!(event_loop, Ok(Some(()))) {
        let text = "the event loop does not reply\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let service_thread = probes.service_thread.lock();
    let mut service_thread = service_thread.unwrap_or_else(PoisonError::into_inner);
    if !service_thread.is_alive(Instant::now()) {
        let text = "the service thread does not reply\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text);
    }
    (StatusCode::OK, "ok\n")
}

async fn readyz(State(probes): State<Probes>) -> (StatusCode, String) {
    let waits = probes.readiness.waits();
    if waits.is_empty() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        let text = format!("{}\n", waits.join("\n"));
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn stuck_service_thread_is_detected_by_a_later_probe() {
        let (thread, mut pings) = ServiceThread::new();
        let mut thread = thread.lock().unwrap();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(thread.is_alive(at(0)) && thread.is_alive(at(1)));
        assert!(!thread.is_alive(at(20)));
        pings.try_recv().unwrap().send(()).unwrap();
        assert!(thread.is_alive(at(40)) && !thread.is_alive(at(60)));
        drop(pings);
        assert!(!thread.is_alive(at(80)), "it has ended");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn only_the_first_list_notifies() {
        let readiness = Readiness::default();
        assert!(readiness.note_list());
        let notified = readiness.changed.notified().now_or_never();
        assert!(notified.is_some());
        assert!(!readiness.note_list());
        let notified = readiness.changed.notified().now_or_never();
        assert!(notified.is_none());
    }

    #[test]
    fn probes_listen_on_loopback_only() {
        for loopback in ["127.0.0.1:9644", "[::1]:9644", "127.0.0.1:0"] {
            assert!(parse_address(loopback).is_ok(), "{loopback}");
        }
        for other in ["0.0.0.0:9644", "10.0.0.1:9644", "[::]:9644", "localhost"] {
            assert!(parse_address(other).is_err(), "{other}");
        }
    }
}
