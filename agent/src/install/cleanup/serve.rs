//! `/healthz` and `/readyz` of `usher-agent --cleanup`.

use axum::{Router, extract, http::StatusCode, routing::get};
use tokio::{net::TcpListener, sync::watch};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Working(Vec<String>),
    Clean,
}

/// Serves until the process ends.
pub(super) async fn serve(
    listener: TcpListener,
    state: watch::Receiver<State>,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(async || "cleaning up\n"))
        .route("/readyz", get(readyz))
        .with_state(state);
    axum::serve(listener, router).await
}

async fn readyz(state: extract::State<watch::Receiver<State>>) -> (StatusCode, String) {
    match &*state.borrow() {
        State::Clean => (StatusCode::OK, "nothing is left\n".to_owned()),
        State::Working(left) => {
            let text = format!("cleaning up\n{}\n", left.join("\n"));
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}
