//! Questions about the agent's own process: its log, which may be changed for a while, its metrics, its settings.

use std::time::Instant;

use axum::{
    Json, Router,
    extract::{ConnectInfo, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use usher_core::admin::{Document, Log, Origin, Settings, log_filter::Wish};

use super::{Admin, Peer, nobody};
use crate::telemetry::{Level, level, metrics::Format};

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/v1/log", get(log).put(set_log).delete(reset_log))
        .route("/v1/metrics", get(metrics))
        .route("/v1/config", get(config))
}

fn told(level: &Level) -> Response {
    let log: Log = level.log(Instant::now());
    Json(Document::new("Log", Origin::Agent, log)).into_response()
}

async fn log() -> Response {
    level().map_or_else(nobody, told)
}

async fn set_log(ConnectInfo(peer): ConnectInfo<Peer>, Json(wish): Json<Wish>) -> Response {
    let Some(level) = level() else {
        return nobody();
    };
    let change = match level.set(&wish, Instant::now()) {
        Ok(change) => change,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    tracing::info!(
        filter = level.log(Instant::now()).filter,
        lasts = ?change.lasts,
        pid = peer.pid,
        "somebody changed the log's filter"
    );
    tokio::spawn(async move {
        tokio::time::sleep(change.lasts).await;
        if level.reset(Some(change)) {
            tracing::info!("the log's filter is what it was at the start");
        }
    });
    told(level)
}

async fn reset_log() -> Response {
    let Some(level) = level() else {
        return nobody();
    };
    if level.reset(None) {
        tracing::info!("somebody had the log's filter be what it was at the start");
    }
    told(level)
}

/// As text: what the numbers of JSON cannot say is among them.
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
    let (settings, file) = admin.metrics.vitals.settings();
    let items = settings.into_iter().chain(admin.flags.iter().cloned());
    let settings = Settings {
        file: file.file,
        error: file.error,
        gaps: Vec::new(),
        items: items.collect(),
    };
    Json(Document::new("Settings", Origin::Agent, settings)).into_response()
}
