//! Orders of people, and what would be done with a pod.

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
    admin::{Document, Origin, RequestOptions},
    base::id::PodUid,
    engine::request::{By, Order, Wish},
    settings::mode::Mode,
};

use super::{Admin, Peer, nobody};
use crate::event_loop::{Input, Person};

/// How long the loop that decides may take. It answers when it has decided, which waits for nobody.
const THOUGHT: Duration = Duration::from_secs(2);

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
    Json(manner): Json<RequestOptions>,
) -> Response {
    let force = manner.force;
    order(peer, &admin, &uid, manner, Wish::Quit { force }).await
}

async fn hold(
    peer: ConnectInfo<Peer>,
    admin: State<Admin>,
    uid: Path<String>,
    Json(manner): Json<RequestOptions>,
) -> Response {
    order(peer, &admin, &uid, manner, Wish::Hold).await
}

async fn release(
    peer: ConnectInfo<Peer>,
    admin: State<Admin>,
    uid: Path<String>,
    Json(manner): Json<RequestOptions>,
) -> Response {
    order(peer, &admin, &uid, manner, Wish::Release).await
}

async fn mend(
    peer: ConnectInfo<Peer>,
    admin: State<Admin>,
    uid: Path<String>,
    Json(manner): Json<RequestOptions>,
) -> Response {
    order(peer, &admin, &uid, manner, Wish::Mend).await
}

async fn order(
    ConnectInfo(peer): ConnectInfo<Peer>,
    admin: &Admin,
    uid: &str,
    manner: RequestOptions,
    wish: Wish,
) -> Response {
    let Some(by) = peer.uid else {
        return (StatusCode::FORBIDDEN, "nobody knows who asks\n").into_response();
    };
    let by = By {
        uid: by,
        pid: peer.pid.unwrap_or_default(),
    };
    let dry_run = manner.dry_run;
    let asked = ask(admin, uid, |pod, answer| {
        let order = Order {
            pod,
            wish,
            by,
            dry_run,
        };
        Person::Order(order, answer)
    });
    match asked.await {
        Ok(answer) => Json(Document::new("Order", Origin::Agent, answer)).into_response(),
        Err(response) => response,
    }
}

async fn plan(State(admin): State<Admin>, Path(uid): Path<String>) -> Response {
    forecast(&admin, &uid, None).await
}

/// What would be done in another mode.
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
    let asked = ask(admin, uid, |pod, answer| {
        Person::Forecast(pod, mode, answer)
    });
    match asked.await {
        Ok(Some(plan)) => Json(Document::new("Plan", Origin::Agent, plan)).into_response(),
        Ok(None) => {
            let text = "the kubelet has not listed this pod: nothing is planned for it\n";
            (StatusCode::NOT_FOUND, text).into_response()
        }
        Err(response) => response,
    }
}

async fn table(State(admin): State<Admin>, Path(uid): Path<String>) -> Response {
    match ask(&admin, &uid, Person::Table).await {
        Ok(table) => Json(Document::new("Table", Origin::Agent, table)).into_response(),
        Err(response) => response,
    }
}

/// Asks the loop that decides.
async fn ask<T>(
    admin: &Admin,
    uid: &str,
    person: impl FnOnce(PodUid, oneshot::Sender<T>) -> Person,
) -> Result<T, Response> {
    let uid = PodUid::parse(uid).map_err(|error| {
        let text = format!("{error}\n");
        (StatusCode::BAD_REQUEST, text).into_response()
    })?;
    let (answer, answered) = oneshot::channel();
    let ask = async {
        let person = Input::Person(person(uid, answer));
        admin.inputs.send(person).await.ok()?;
        answered.await.ok()
    };
    let asked = tokio::time::timeout(THOUGHT, ask).await;
    asked.ok().flatten().ok_or_else(nobody)
}
