//! The log filter, the metrics and the settings of the agent.

use std::time::Instant;

use axum::{
    Json, Router,
    extract::{ConnectInfo, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use usher_core::admin::{Document, Log, Origin, Settings, log_filter::Wish};

use super::{Admin, Peer, unavailable};
use crate::telemetry::{LogLevel, log_level, metrics::Format};

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/v1/log", get(log).put(set_log).delete(reset_log))
        .route("/v1/metrics", get(metrics))
        .route("/v1/config", get(config))
}

fn document(level: &LogLevel) -> Response {
    let log: Log = level.log(Instant::now());
    Json(Document::new("Log", Origin::Agent, log)).into_response()
}

async fn log() -> Response {
    log_level().map_or_else(unavailable, document)
}

async fn set_log(ConnectInfo(peer): ConnectInfo<Peer>, Json(wish): Json<Wish>) -> Response {
    let Some(level) = log_level() else {
        return unavailable();
    };
    let change = match level.set(&wish, Instant::now()) {
        Ok(change) => change,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
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
    document(level)
}

async fn reset_log() -> Response {
    let Some(level) = log_level() else {
        return unavailable();
    };
    if level.reset(None) {
        tracing::info!("reverted the log filter for an operator");
    }
    document(level)
}

/// In the text format, because JSON has no infinity.
async fn metrics(State(admin): State<Admin>) -> Response {
    let is_ready = admin.readiness.waits().is_empty();
    admin.metrics.ready.set(is_ready.into());
    let format = Format::Text;
    (
        [(header::CONTENT_TYPE, format.content_type())],
        admin.metrics.text(format),
    )
        .into_response()
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
    Json(Document::new("Settings", Origin::Agent, settings)).into_response()
}
