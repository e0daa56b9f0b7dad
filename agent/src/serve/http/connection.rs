//! Connections of the health endpoint. Its port is on the node's loopback by default, where every user and every pod with
//! `hostNetwork` can connect.
//!
//! The number of connections is limited, and each ends after one request or a deadline. A new connection is always
//! accepted: at the limit it replaces the oldest one without a request, so that silent clients cannot block a probe.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use usher_client::error_chain::chain;

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may last. The slowest response takes 2 s.
const LONGEST: Duration = Duration::from_secs(5);
/// Bytes of a request's head.
const LONGEST_HEAD: usize = 16 * 1024;
/// Wait after a failed accept: no descriptors are left.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection that is open, or was until now.
#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    has_request: Arc<AtomicBool>,
}

/// Serves until the process ends.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let routes = TowerToHyperService::new(router);
    let mut open = VecDeque::with_capacity(MAX_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => {
                make_room(&mut open);
                open.push_back(spawn(stream, routes.clone()));
                // A request that has arrived is read before the next connection can replace this one.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not accept a connection for health and metrics");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn make_room(open: &mut VecDeque<Connection>) {
    open.retain(|connection| !connection.task.is_finished());
    if open.len() < MAX_CONNECTIONS {
        return;
    }
    let is_silent = |connection: &Connection| !connection.has_request.load(Ordering::Relaxed);
    let oldest = open.iter().position(is_silent).unwrap_or(0);
    if let Some(connection) = open.remove(oldest) {
        connection.task.abort();
    }
}

fn spawn(stream: TcpStream, routes: TowerToHyperService<Router>) -> Connection {
    let has_request = Arc::new(AtomicBool::new(false));
    let received = Arc::clone(&has_request);
    let respond = service_fn(move |request| {
        received.store(true, Ordering::Relaxed);
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), respond);
    let task = tokio::spawn(async {
        // A client that closes early, or sends an invalid request, gets no response.
        drop(tokio::time::timeout(LONGEST, connection).await);
    });
    Connection {
        task: task.abort_handle(),
        has_request,
    }
}
