//! The log filter, the metrics and the settings of the agent.

use std::time::Instant;

use axum::{
    Json, Router,
    extract::{ConnectInfo, State},
    response::{IntoResponse, Response},
    routing::get,
};
use usher_core::admin::{Settings, log_filter::Wish};

use super::{Admin, Peer, bad_request, document, unavailable};
use crate::{
    serve::metrics,
    telemetry::{LogLevel, log_level, metrics::Format},
};

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/v1/log", get(log).put(set_log).delete(reset_log))
        .route("/v1/metrics", get(metrics_page))
        .route("/v1/config", get(config))
}

fn log_document(level: &LogLevel) -> Response {
    document("Log", level.log(Instant::now()))
}

async fn log() -> Result<Response, Response> {
    let level = log_level().ok_or_else(unavailable)?;
    Ok(log_document(level))
}

async fn set_log(
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(wish): Json<Wish>,
) -> Result<Response, Response> {
    let level = log_level().ok_or_else(unavailable)?;
    let change = level.set(&wish, Instant::now()).map_err(bad_request)?;
    tracing::info!(
        filter = level.log(Instant::now()).filter,
        duration = %humantime::format_duration(change.duration),
        pid = peer.pid,
        "changed the log filter for an operator"
    );
    tokio::spawn(async move {
        tokio::time::sleep(change.duration).await;
        if level.reset(Some(change)) {
            tracing::info!("reverted the log filter");
        }
    });
    Ok(log_document(level))
}

async fn reset_log() -> Result<Response, Response> {
    let level = log_level().ok_or_else(unavailable)?;
    if level.reset(None) {
        tracing::info!("reverted the log filter for an operator");
    }
    Ok(log_document(level))
}

/// In the text format, because JSON has no infinity.
async fn metrics_page(State(admin): State<Admin>) -> impl IntoResponse {
    metrics::page(&admin.metrics, &admin.readiness, Format::Text)
}

async fn config(State(admin): State<Admin>) -> Response {
    let (settings, file) = admin.health.settings();
    let items = settings.into_iter().chain(admin.flags.iter().cloned());
    let settings = Settings {
        file: file.file,
        error: file.error,
        gaps: Vec::new(),
        items: items.collect(),
    };
    document("Settings", settings)
}
