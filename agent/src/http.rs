//! `/healthz`, `/readyz` and `/metrics`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};

use crate::{metrics::Metrics, node::Input};

/// How long the loop that decides may take to say that it lives.
const PULSE: Duration = Duration::from_secs(2);
/// The format that `prometheus-client` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What has to have happened once before the agent is ready.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// The kubelet has given its pods.
    pub(crate) listed: AtomicBool,
    /// The Node's annotations have been seen, or are not to be.
    pub(crate) node_known: AtomicBool,
}

#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) inputs: mpsc::Sender<Input>,
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, service: Service) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(service);
    axum::serve(listener, router).await
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

async fn readyz(State(service): State<Service>) -> (StatusCode, String) {
    let mut waits = Vec::new();
    if !service.readiness.listed.load(Ordering::Acquire) {
        waits.push("the kubelet has not given its pods yet");
    }
    if !service.readiness.node_known.load(Ordering::Acquire) {
        waits.push("the Node's annotations have not been seen yet");
    }
    if waits.is_empty() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        let text = format!("{}\n", waits.join("\n"));
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

async fn metrics(State(service): State<Service>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, OPEN_METRICS)],
        service.metrics.text(),
    )
}
