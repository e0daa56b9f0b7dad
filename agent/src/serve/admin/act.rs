//! Operator requests about a pod, and its plan and table.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{ConnectInfo, Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use tokio::sync::oneshot;
use usher_core::{
    admin::{LONGEST_BUSY, RequestOptions},
    base::id::PodUid,
    decision::{Requester, Verb},
    engine::request::OperatorRequest,
    settings::mode::Mode,
};

use super::{Admin, Peer, bad_request, document, exchange, observe::REPLY_TIMEOUT};
use crate::event_loop::{AdminRequest, Input};

/// Timeout of the event loop's reply to an operator's request, which may wait for the pod.
const REQUEST_TIMEOUT: Duration = LONGEST_BUSY.saturating_add(Duration::from_secs(1));

pub(super) fn routes() -> Router<Admin> {
    let quit = |options: &RequestOptions| Verb::Quit {
        force: options.force,
    };
    Router::new()
        .route("/v1/pods/{uid}/quit", operation(quit))
        .route("/v1/pods/{uid}/hold", operation(|_options| Verb::Hold))
        .route(
            "/v1/pods/{uid}/release",
            operation(|_options| Verb::Release),
        )
        .route("/v1/pods/{uid}/repair", operation(|_options| Verb::Repair))
        .route("/v1/pods/{uid}/plan", get(plan))
        .route("/v1/pods/{uid}/plan/{mode}", get(plan_in))
        .route("/v1/pods/{uid}/table", get(table))
}

fn operation(verb: fn(&RequestOptions) -> Verb) -> MethodRouter<Admin> {
    post(
        async move |peer: ConnectInfo<Peer>,
                    admin: State<Admin>,
                    uid: Path<String>,
                    Json(options): Json<RequestOptions>| {
            operator_request(peer, &admin, &uid, options.dry_run, verb(&options)).await
        },
    )
}

async fn operator_request(
    ConnectInfo(peer): ConnectInfo<Peer>,
    admin: &Admin,
    uid: &str,
    dry_run: bool,
    verb: Verb,
) -> Result<Response, Response> {
    let Some(user) = peer.uid else {
        let text = "the kernel has no credentials of the client\n";
        return Err((StatusCode::FORBIDDEN, text).into_response());
    };
    let requester = Requester {
        uid: user,
        pid: peer.pid.unwrap_or_default(),
    };
    let replied = request(admin, uid, REQUEST_TIMEOUT, |pod, reply| {
        let request = OperatorRequest {
            pod,
            verb,
            requester,
            dry_run,
        };
        AdminRequest::Operator(request, reply)
    });
    Ok(document("OperatorReply", replied.await?))
}

async fn plan(State(admin): State<Admin>, Path(uid): Path<String>) -> Result<Response, Response> {
    forecast(&admin, &uid, None).await
}

async fn plan_in(
    State(admin): State<Admin>,
    Path((uid, mode)): Path<(String, String)>,
) -> Result<Response, Response> {
    let mode: Mode = mode.parse().map_err(bad_request)?;
    forecast(&admin, &uid, Some(mode)).await
}

async fn forecast(admin: &Admin, uid: &str, mode: Option<Mode>) -> Result<Response, Response> {
    let forecast = request(admin, uid, REPLY_TIMEOUT, |pod, reply| {
        AdminRequest::Forecast(pod, mode, reply)
    });
    let Some(plan) = forecast.await? else {
        let text = "the kubelet has not listed this pod, so it has no plan\n";
        return Err((StatusCode::NOT_FOUND, text).into_response());
    };
    Ok(document("Plan", plan))
}

async fn table(State(admin): State<Admin>, Path(uid): Path<String>) -> Result<Response, Response> {
    let table = request(&admin, &uid, REPLY_TIMEOUT, AdminRequest::Table);
    Ok(document("Table", table.await?))
}

/// Sends a request about a pod to the event loop, and waits for its reply.
async fn request<T>(
    admin: &Admin,
    uid: &str,
    timeout: Duration,
    request: impl FnOnce(PodUid, oneshot::Sender<T>) -> AdminRequest,
) -> Result<T, Response> {
    let uid = PodUid::parse(uid).map_err(bad_request)?;
    let input = |reply| Input::Operator(request(uid, reply));
    exchange(admin, timeout, input).await
}
