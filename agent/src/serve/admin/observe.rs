//! Reads: what the agent sees and has decided.

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
use usher_core::{
    admin::{self, Document, Origin, Pods, Status, Timeline},
    base::id::PodUid,
};

use super::{Admin, nobody};
use crate::{
    event_loop::{Input, View},
    telemetry::decision_log::Question,
};

/// How long the loop that decides may take.
const THOUGHT: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/pods", get(pods))
        .route("/v1/pods/{uid}/timeline", get(timeline))
}

/// What the loop that decides knows now; None where it does not answer.
pub(super) async fn view(admin: &Admin) -> Option<View> {
    let (answer, answered) = oneshot::channel();
    let ask = async {
        admin.inputs.send(Input::View(answer)).await.ok()?;
        answered.await.ok()
    };
    tokio::time::timeout(THOUGHT, ask).await.ok().flatten()
}

async fn pods(State(admin): State<Admin>) -> Response {
    match view(&admin).await {
        Some(view) => {
            let pods = Pods { items: view.pods };
            Json(Document::new("Pods", Origin::Agent, pods)).into_response()
        }
        None => nobody(),
    }
}

async fn status(State(admin): State<Admin>) -> Response {
    let Some(view) = view(&admin).await else {
        return nobody();
    };
    let waits = admin.readiness.waits();
    let ready = waits.is_empty();
    let mut status = Status {
        node: admin.node_name.clone(),
        agent: Some(admin::Agent {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            up_ms: u64::try_from(admin.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            ready,
            waits: waits.into_iter().map(str::to_owned).collect(),
        }),
        modes: admin::Modes {
            quit: view.modes.quit.to_string(),
            hold: view.modes.hold.to_string(),
            known: admin.readiness.node_known.load(Ordering::Acquire),
            ..admin::Modes::default()
        },
        lacks: view.lacks,
        pods: view.census.with(&view.pods),
        ..Status::default()
    };
    admin.metrics.vitals.tell(&mut status, Instant::now());
    status.problems = status.judge();
    Json(Document::new("Status", Origin::Agent, status)).into_response()
}

async fn timeline(State(admin): State<Admin>, Path(uid): Path<String>) -> Response {
    let uid = match PodUid::parse(&uid) {
        Ok(uid) => uid,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let (answer, answered) = oneshot::channel();
    let asked = admin.desk.questions.send(Question { uid, answer }).await;
    match (asked, answered.await) {
        (Ok(()), Ok(items)) => {
            let timeline = Timeline { items };
            Json(Document::new("Timeline", Origin::Agent, timeline)).into_response()
        }
        _ => nobody(),
    }
}
