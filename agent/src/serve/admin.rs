//! The admin socket: what the program `usher` asks the agent, over HTTP on a Unix socket of the run directory.
//!
//! The socket is the owner's only, and who is behind a connection is asked from the kernel besides
//! ([SO_PEERCRED](https://man7.org/linux/man-pages/man7/unix.7.html)): nobody but root is answered, neither reads, which
//! show every pod of the node, nor orders. A descriptor that was passed on does not change whose connection it is.
//!
//! One room for each kind of question.

mod act;
mod observe;
mod process;
mod watch;

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use axum::{
    Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, connect_info::Connected},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    serve::IncomingStream,
};
use tokio::{net::UnixListener, sync::mpsc};
use usher_client::{error_chain::chain, run_dir::socket};
use usher_core::settings::config::origin::Setting;

use crate::{
    event_loop::Input,
    serve::http::Readiness,
    telemetry::{decision_log::Desk, metrics::Metrics},
};

/// A question or an order is a few hundred bytes.
const LONGEST_BODY: usize = 64 * 1024;
/// Owner only.
const MODE: u32 = 0o600;

/// What answers are made of.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) node_name: String,
    /// When the agent began.
    pub(crate) begun: Instant,
    /// The loop that decides.
    pub(crate) inputs: mpsc::Sender<Input>,
    /// What was decided, and is.
    pub(crate) desk: Desk,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) metrics: Arc<Metrics>,
    /// Flags and variables that it was started with.
    pub(crate) flags: Arc<[Setting]>,
}

/// The socket could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("listening on {path:?}")]
struct Unbound {
    path: PathBuf,
    source: io::Error,
}

/// The user behind a connection; None where the kernel does not tell.
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

/// Answers at `path` as long as the agent lives; whoever asks from now on is heard. Where that is not possible `usher`
/// looks at the node itself.
pub(crate) fn answer(path: PathBuf, admin: Admin) -> impl Future<Output = ()> {
    let serve = move |listener| {
        let admin = admin.clone();
        async {
            if let Err(error) = serve(listener, admin).await {
                tracing::warn!(error = %chain(&error), "stopped answering the program usher");
            }
        }
    };
    let else_what = "the program usher looks at the node itself";
    socket::keep(path, else_what, bind, serve, |_listening| {})
}

/// Listens at `path`, in place of a socket that an earlier agent left.
///
/// # Errors
/// [`Unbound`].
fn bind(path: &Path) -> Result<UnixListener, Unbound> {
    let bind = || {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        // Whoever came before is known by the credentials.
        fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
        Ok(listener)
    };
    bind().map_err(|source| Unbound {
        path: path.to_owned(),
        source,
    })
}

/// Answers until the process ends.
async fn serve(listener: UnixListener, admin: Admin) -> io::Result<()> {
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

/// Turns away whoever is not root.
async fn root_only(ConnectInfo(peer): ConnectInfo<Peer>, request: Request, next: Next) -> Response {
    if peer.uid == Some(0) {
        return next.run(request).await;
    }
    tracing::warn!(
        uid = peer.uid,
        pid = peer.pid,
        "turned somebody away who is not root"
    );
    (StatusCode::FORBIDDEN, "only root is answered\n").into_response()
}

/// The agent is ending, or the thread that is asked has.
pub(crate) fn nobody() -> Response {
    let text = "the part of the agent that knows does not answer\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}
