//! The admin socket: the API of the command-line tool `usher`, over HTTP on a Unix socket in the run directory.
//!
//! The socket's mode admits only its owner, and the agent also checks the credentials of each connection
//! ([SO_PEERCRED](https://man7.org/linux/man-pages/man7/unix.7.html)). It serves only root, including reads, which show
//! every pod of the node. The credentials are those of the process that connected, even if it passes the descriptor on.
//!
//! | module | routes |
//! | --- | --- |
//! | [`observe`] | status, pods, and a pod's timeline |
//! | [`act`] | operator requests about a pod, and its plan and table |
//! | [`watch`] | decisions as they are recorded |
//! | [`process`] | log filter, metrics, and settings of the agent |

mod act;
mod observe;
mod process;
mod watch;

use std::{
    fmt::Display,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, connect_info::Connected},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    serve::IncomingStream,
};
use serde::Serialize;
use tokio::{
    net::UnixListener,
    sync::{mpsc, oneshot},
};
use usher_client::{error_chain::chain, run_dir::socket};
use usher_core::{
    admin::{Document, Origin},
    settings::config::origin::Setting,
};

use crate::{
    event_loop::Input,
    serve::probes::Readiness,
    telemetry::{decision_log::RecorderHandle, health::Health, metrics::Metrics},
};

/// Limit of a body. Requests have a few hundred bytes.
const LONGEST_BODY: usize = 64 * 1024;
/// Owner only.
const MODE: u32 = 0o600;

/// State of all routes.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) node_name: String,
    pub(crate) started: Instant,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) recorder: RecorderHandle,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    /// The agent's flags and variables.
    pub(crate) flags: Arc<[Setting]>,
}

#[derive(Debug, thiserror::Error)]
#[error("listening on {path:?}")]
struct BindError {
    path: PathBuf,
    source: io::Error,
}

/// Credentials of the process that connected; None if the kernel has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) uid: Option<u32>,
    pub(crate) pid: Option<i32>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let credentials = stream.io().peer_cred().ok();
        Self {
            uid: credentials.map(|peer| peer.uid()),
            pid: credentials.and_then(|peer| peer.pid()),
        }
    }
}

/// Serves at `path` until the agent ends. Listening starts with the call. If it fails, `usher` reads the node itself.
pub(crate) fn serve(path: PathBuf, admin: Admin) -> impl Future<Output = ()> {
    let serve = move |listener| {
        let admin = admin.clone();
        async {
            if let Err(error) = accept(listener, admin).await {
                tracing::warn!(error = %chain(&error), "stopped serving the admin socket");
            }
        }
    };
    let consequence = "usher reads the node itself";
    socket::keep(path, consequence, bind, serve, |_listening| {})
}

/// Listens at `path`, and replaces an earlier agent's socket.
fn bind(path: &Path) -> Result<UnixListener, BindError> {
    let bind = || {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        // A client that connects before the mode is set is rejected by its credentials.
        fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
        Ok(listener)
    };
    bind().map_err(|source| BindError {
        path: path.to_owned(),
        source,
    })
}

async fn accept(listener: UnixListener, admin: Admin) -> io::Result<()> {
    let router = Router::new()
        .merge(observe::routes())
        .merge(act::routes())
        .merge(watch::routes())
        .merge(process::routes())
        .with_state(admin)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn(root_only));
    axum::serve(
        listener,
        router.into_make_service_with_connect_info::<Peer>(),
    )
    .await
}

/// Rejects every client that is not root.
async fn root_only(ConnectInfo(peer): ConnectInfo<Peer>, request: Request, next: Next) -> Response {
    if peer.uid == Some(0) {
        return next.run(request).await;
    }
    tracing::warn!(
        uid = peer.uid,
        pid = peer.pid,
        "rejected a client of the admin socket that is not root"
    );
    (
        StatusCode::FORBIDDEN,
        "only root may use the admin socket\n",
    )
        .into_response()
}

/// The event loop's reply to an input.
async fn exchange<T>(
    admin: &Admin,
    timeout: Duration,
    input: impl FnOnce(oneshot::Sender<T>) -> Input,
) -> Result<T, Response> {
    let (reply, replied) = oneshot::channel();
    let exchange = async {
        admin.inputs.send(input(reply)).await.ok()?;
        replied.await.ok()
    };
    tokio::time::timeout(timeout, exchange)
        .await
        .ok()
        .flatten()
        .ok_or_else(unavailable)
}

fn document(kind: &str, data: impl Serialize) -> Response {
    Json(Document::new(kind, Origin::Agent, data)).into_response()
}

fn bad_request(error: impl Display) -> Response {
    (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
}

/// The response if the agent is shutting down, or its event loop or recorder does not reply.
fn unavailable() -> Response {
    let text = "the agent does not reply: its event loop is stuck, or it is ending\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}
