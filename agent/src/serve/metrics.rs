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
