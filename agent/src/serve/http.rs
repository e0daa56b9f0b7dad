//! `/healthz`, `/readyz` and `/metrics`.

mod connection;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, oneshot},
};

use crate::{
    event_loop::Input,
    telemetry::metrics::{Format, Metrics},
};

/// How long the event loop may take to reply to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The steps of the start that the agent's readiness waits for.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// The kubelet has listed its pods.
    pub(crate) listed: AtomicBool,
    /// The Node's annotations have been received, or the agent works without an API server.
    pub(crate) node_known: AtomicBool,
    /// The CNI plugin is as the Node's mode needs it, or its installation has failed.
    pub(crate) plugin_settled: AtomicBool,
    /// One of these, or the Node, may have changed. One task waits for it.
    pub(crate) changed: Notify,
}

impl Readiness {
    /// Whether the start is complete.
    pub(crate) fn is_complete(&self) -> bool {
        let all = [&self.listed, &self.node_known, &self.plugin_settled];
        all.iter().all(|so| so.load(Ordering::Acquire))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) inputs: mpsc::Sender<Input>,
}

/// Binds the port. Clients that connect wait for [`serve`]. Needs no runtime.
///
/// # Errors
/// Also when another agent has the port.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, service: Service) {
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(service);
    connection::serve(listener, router).await;
}

/// Pings the event loop: the service thread replies also where the event loop is stuck.
async fn healthz(State(service): State<Service>) -> (StatusCode, &'static str) {
    let (reply, replied) = oneshot::channel();
    let ping = async {
        service.inputs.send(Input::Ping(reply)).await.ok()?;
        replied.await.ok()
    };
    match tokio::time::timeout(PING_TIMEOUT, ping).await {
        Ok(Some(())) => (StatusCode::OK, "ok\n"),
        Ok(None) | Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the event loop does not reply\n",
        ),
    }
}

impl Readiness {
    /// The steps that are missing, for `/readyz`.
    pub(crate) fn waits(&self) -> Vec<&'static str> {
        let mut waits = Vec::new();
        if !self.listed.load(Ordering::Acquire) {
            waits.push("the kubelet has not listed its pods yet");
        }
        if !self.node_known.load(Ordering::Acquire) {
            waits.push("the Node's annotations have not been received yet");
        }
        waits
    }
}

async fn readyz(State(service): State<Service>) -> (StatusCode, String) {
    let waits = service.readiness.waits();
    if waits.is_empty() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        let text = format!("{}\n", waits.join("\n"));
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

async fn metrics(State(service): State<Service>, headers: HeaderMap) -> impl IntoResponse {
    let is_ready = service.readiness.waits().is_empty();
    service.metrics.ready.set(is_ready.into());
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    (
        [(header::CONTENT_TYPE, format.content_type())],
        service.metrics.text(format),
    )
}
