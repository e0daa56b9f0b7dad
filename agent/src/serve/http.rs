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

/// How long the loop that decides may take to say that it lives.
const PULSE: Duration = Duration::from_secs(2);

/// What has to have happened once before the agent is ready.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// The kubelet has given its pods.
    pub(crate) listed: AtomicBool,
    /// The Node's annotations have been seen, or are not to be.
    pub(crate) node_known: AtomicBool,
    /// The CNI plugin is as the Node wants it, or cannot be.
    pub(crate) plugin_settled: AtomicBool,
    /// One of these, or the Node, may have changed. One task waits for it.
    pub(crate) news: Notify,
}

impl Readiness {
    /// Whether nothing more is to come before pods can be taken care of.
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

/// Takes the port; whoever connects from now on waits for [`serve`]. Outside of a runtime.
///
/// # Errors
/// Also when another agent has it.
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

/// Alive is who answers: the loop that decides is asked, not this one.
async fn healthz(State(service): State<Service>) -> (StatusCode, &'static str) {
    let (pulse, felt) = oneshot::channel();
    let ask = async {
        service.inputs.send(Input::Pulse(pulse)).await.ok()?;
        felt.await.ok()
    };
    match tokio::time::timeout(PULSE, ask).await {
        Ok(Some(())) => (StatusCode::OK, "ok\n"),
        Ok(None) | Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the loop that decides does not answer\n",
        ),
    }
}

impl Readiness {
    /// What it still waits for.
    pub(crate) fn waits(&self) -> Vec<&'static str> {
        let mut waits = Vec::new();
        if !self.listed.load(Ordering::Acquire) {
            waits.push("the kubelet has not given its pods yet");
        }
        if !self.node_known.load(Ordering::Acquire) {
            waits.push("the Node's annotations have not been seen yet");
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
    let format = Format::wanted(accept.unwrap_or_default());
    (
        [(header::CONTENT_TYPE, format.content_type())],
        service.metrics.text(format),
    )
}
