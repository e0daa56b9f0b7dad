//! Status, pods, and a pod's timeline.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::sync::oneshot;
use usher_client::wall_clock;
use usher_core::{
    admin::{self, CostReport, CountingNode, Document, Origin, Pods, Status, Timeline},
    base::id::PodUid,
};

use super::{Admin, unavailable};
use crate::{
    event_loop::{Input, View},
    telemetry::decision_log::TimelineQuery,
};

/// Timeout of the event loop's reply. It replies from memory and waits for nothing.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/pods", get(pods))
        .route("/v1/costs", get(costs))
        .route("/v1/pods/{uid}/timeline", get(timeline))
}

/// A snapshot of the event loop's state; None if the event loop does not reply.
pub(super) async fn view(admin: &Admin) -> Option<View> {
    exchange(admin, Input::View).await
}

/// The event loop's reply to a request; None if it does not reply in time.
async fn exchange<T>(admin: &Admin, input: impl FnOnce(oneshot::Sender<T>) -> Input) -> Option<T> {
    let (reply, replied) = oneshot::channel();
    let exchange = async {
        admin.inputs.send(input(reply)).await.ok()?;
        replied.await.ok()
    };
    tokio::time::timeout(REPLY_TIMEOUT, exchange)
        .await
        .ok()
        .flatten()
}

async fn pods(State(admin): State<Admin>) -> Response {
    match view(&admin).await {
        Some(view) => {
            let pods = Pods { items: view.pods };
            Json(Document::new("Pods", Origin::Agent, pods)).into_response()
        }
        None => unavailable(),
    }
}

async fn costs(State(admin): State<Admin>) -> Response {
    let Some(items) = exchange(&admin, Input::Costs).await else {
        return unavailable();
    };
    let up = admin.started.elapsed();
    let since = wall_clock::since_epoch().saturating_sub(up);
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let node = CountingNode {
        node: admin.node_name.clone(),
        since_ms: ms(since),
        for_ms: ms(up),
    };
    let nodes = vec![node];
    let report = CostReport { nodes, items };
    Json(Document::new("Report", Origin::Agent, report)).into_response()
}

async fn status(State(admin): State<Admin>) -> Response {
    let Some(view) = view(&admin).await else {
        return unavailable();
    };
    let waits = admin.readiness.waits();
    let ready = waits.is_empty();
    let mut status = Status {
        node: admin.node_name.clone(),
        agent: Some(admin::Agent {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            up_ms: u64::try_from(admin.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            ready,
            waits,
        }),
        modes: admin::Modes {
            quit: view.modes.quit.to_string(),
            hold: view.modes.hold.to_string(),
            linger: view.modes.linger.to_string(),
            known: admin.readiness.node_known.load(Ordering::Acquire),
            ..admin::Modes::default()
        },
        lacks: view.lacks,
        pods: view.census.with(&view.pods),
        ..Status::default()
    };
    admin.health.fill_status(&mut status, Instant::now());
    status.problems = status.judge();
    Json(Document::new("Status", Origin::Agent, status)).into_response()
}

async fn timeline(State(admin): State<Admin>, Path(uid): Path<String>) -> Response {
    let uid = match PodUid::parse(&uid) {
        Ok(uid) => uid,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let (reply, replied) = oneshot::channel();
    let query = TimelineQuery { uid, reply };
    let sent = admin.recorder.queries.send(query).await;
    match (sent, replied.await) {
        (Ok(()), Ok(items)) => {
            let timeline = Timeline { items };
            Json(Document::new("Timeline", Origin::Agent, timeline)).into_response()
        }
        _ => unavailable(),
    }
}
