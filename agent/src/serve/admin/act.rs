//! Operator requests about a pod, and its plan and table.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{ConnectInfo, Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tokio::sync::oneshot;
use usher_core::{
    admin::{Document, LONGEST_BUSY, Origin, RequestOptions},
    base::id::PodUid,
    decision::{Requester, Verb},
    engine::request::Order,
    settings::mode::Mode,
};

use super::{Admin, Peer, observe::REPLY_TIMEOUT, unavailable};
use crate::event_loop::{Input, OperatorRequest};

/// Timeout of the event loop's reply to an operator's request, which may wait for the pod.
const ORDER_TIMEOUT: Duration = LONGEST_BUSY.saturating_add(Duration::from_secs(1));

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/v1/pods/{uid}/quit", post(quit))
        .route("/v1/pods/{uid}/hold", post(hold))
        .route("/v1/pods/{uid}/release", post(release))
        .route("/v1/pods/{uid}/mend", post(mend))
        .route("/v1/pods/{uid}/plan", get(plan))
        .route("/v1/pods/{uid}/plan/{mode}", get(plan_in))
        .route("/v1/pods/{uid}/table", get(table))
}

async fn quit(
    peer: ConnectInfo<Peer>,
    admin: State<Admin>,
    uid: Path<String>,
    Json(options): Json<RequestOptions>,
) -> Response {
    let force = options.force;
    order(peer, &admin, &uid, options, Verb::Quit { force }).await
}

async fn hold(
    peer: ConnectInfo<Peer>,
    admin: State<Admin>,
    uid: Path<String>,
    Json(options): Json<RequestOptions>,
) -> Response {
    order(peer, &admin, &uid, options, Verb::Hold).await
}

async fn release(
    peer: ConnectInfo<Peer>,
    admin: State<Admin>,
    uid: Path<String>,
    Json(options): Json<RequestOptions>,
) -> Response {
    order(peer, &admin, &uid, options, Verb::Release).await
}

async fn mend(
    peer: ConnectInfo<Peer>,
    admin: State<Admin>,
    uid: Path<String>,
    Json(options): Json<RequestOptions>,
) -> Response {
    order(peer, &admin, &uid, options, Verb::Mend).await
}

async fn order(
    ConnectInfo(peer): ConnectInfo<Peer>,
    admin: &Admin,
    uid: &str,
    options: RequestOptions,
    verb: Verb,
) -> Response {
    let Some(user) = peer.uid else {
        let text = "the kernel has no credentials of the client\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    };
    let requester = Requester {
        uid: user,
        pid: peer.pid.unwrap_or_default(),
    };
    let dry_run = options.dry_run;
    let ordered = request(admin, uid, ORDER_TIMEOUT, |pod, reply| {
        let order = Order {
            pod,
            verb,
            requester,
            dry_run,
        };
        OperatorRequest::Order(order, reply)
    });
    match ordered.await {
        Ok(ordered) => Json(Document::new("Order", Origin::Agent, ordered)).into_response(),
        Err(response) => response,
    }
}

async fn plan(State(admin): State<Admin>, Path(uid): Path<String>) -> Response {
    forecast(&admin, &uid, None).await
}

async fn plan_in(
    State(admin): State<Admin>,
    Path((uid, mode)): Path<(String, String)>,
) -> Response {
    match mode.parse::<Mode>() {
        Ok(mode) => forecast(&admin, &uid, Some(mode)).await,
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

async fn forecast(admin: &Admin, uid: &str, mode: Option<Mode>) -> Response {
    let forecast = request(admin, uid, REPLY_TIMEOUT, |pod, reply| {
        OperatorRequest::Forecast(pod, mode, reply)
    });
    match forecast.await {
        Ok(Some(plan)) => Json(Document::new("Plan", Origin::Agent, plan)).into_response(),
        Ok(None) => {
            let text = "the kubelet has not listed this pod, so it has no plan\n";
            (StatusCode::NOT_FOUND, text).into_response()
        }
        Err(response) => response,
    }
}

async fn table(State(admin): State<Admin>, Path(uid): Path<String>) -> Response {
    match request(&admin, &uid, REPLY_TIMEOUT, OperatorRequest::Table).await {
        Ok(table) => Json(Document::new("Table", Origin::Agent, table)).into_response(),
        Err(response) => response,
    }
}

/// Sends a request to the event loop, and waits for its reply.
async fn request<T>(
    admin: &Admin,
    uid: &str,
    longest: Duration,
    request: impl FnOnce(PodUid, oneshot::Sender<T>) -> OperatorRequest,
) -> Result<T, Response> {
    let uid = PodUid::parse(uid).map_err(|error| {
        let text = format!("{error}\n");
        (StatusCode::BAD_REQUEST, text).into_response()
    })?;
    let (reply, replied) = oneshot::channel();
    let exchange = async {
        let input = Input::Operator(request(uid, reply));
        admin.inputs.send(input).await.ok()?;
        replied.await.ok()
    };
    tokio::time::timeout(longest, exchange)
        .await
        .ok()
        .flatten()
        .ok_or_else(unavailable)
}
