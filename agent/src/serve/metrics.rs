//! `/metrics`, at an address that may be reachable from the network.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use super::{
    connection::{self, Clients},
    probes::Readiness,
};
use crate::telemetry::metrics::{Format, Metrics};

#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, service: Service) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .with_state(service);
    connection::serve(listener, router, Clients::Network).await;
}

async fn metrics(State(service): State<Service>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    page(&service.metrics, &service.readiness, format)
}

/// The metrics in this format.
pub(super) fn page(
    metrics: &Metrics,
    readiness: &Readiness,
    format: Format,
) -> impl IntoResponse + use<> {
    let is_ready = readiness.waits().is_empty();
    metrics.ready.set(is_ready.into());
    (
        [(header::CONTENT_TYPE, format.content_type())],
        metrics.text(format),
    )
}
