//! Status, pods, and a pod's timeline.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Path, State},
    response::Response,
    routing::get,
};
use tokio::sync::oneshot;
use usher_client::wall_clock;
use usher_core::{
    admin::{self, CostReport, CountingNode, Pods, Status, Timeline},
    base::id::PodUid,
};

use super::{Admin, bad_request, document, exchange, unavailable};
use crate::{event_loop::Input, telemetry::decision_log::TimelineQuery};

/// Timeout of the event loop's reply. It replies from memory and waits for nothing.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/pods", get(pods))
        .route("/v1/costs", get(costs))
        .route("/v1/pods/{uid}/timeline", get(timeline))
}

async fn pods(State(admin): State<Admin>) -> Result<Response, Response> {
    let view = exchange(&admin, REPLY_TIMEOUT, Input::View).await?;
    Ok(document("Pods", Pods { items: view.pods }))
}

async fn costs(State(admin): State<Admin>) -> Result<Response, Response> {
    let items = exchange(&admin, REPLY_TIMEOUT, Input::Costs).await?;
    let up = admin.started.elapsed();
    let since = wall_clock::since_epoch().saturating_sub(up);
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let node = CountingNode {
        node: admin.node_name.clone(),
        since_ms: ms(since),
        for_ms: ms(up),
    };
    let nodes = vec![node];
    Ok(document("Report", CostReport { nodes, items }))
}

async fn status(State(admin): State<Admin>) -> Result<Response, Response> {
    let view = exchange(&admin, REPLY_TIMEOUT, Input::View).await?;
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
            quit: view.modes.quit,
            hold: view.modes.hold,
            linger: view.modes.linger,
            known: admin.readiness.node_known.load(Ordering::Acquire),
            ..admin::Modes::default()
        },
        lacks: view.lacks,
        pods: view.census.with(&view.pods),
        ..Status::default()
    };
    admin.health.fill_status(&mut status, Instant::now());
    status.problems = status.judge();
    Ok(document("Status", status))
}

async fn timeline(
    State(admin): State<Admin>,
    Path(uid): Path<String>,
) -> Result<Response, Response> {
    let uid = PodUid::parse(&uid).map_err(bad_request)?;
    let (reply, replied) = oneshot::channel();
    let query = TimelineQuery { uid, reply };
    let sent = admin.recorder.queries.send(query).await;
    match (sent, replied.await) {
        (Ok(()), Ok(items)) => Ok(document("Timeline", Timeline { items })),
        _ => Err(unavailable()),
    }
}
