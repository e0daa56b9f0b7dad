//! Connections of whoever asks. The port is on the node's loopback by default, where every user and every pod with
//! `hostNetwork` can connect.
//!
//! There are few of them at a time, and each ends soon: one question, one answer. Nobody waits to be accepted: where
//! there is no room, the oldest that has not asked yet makes it. So those who say nothing keep no probe out.

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
const MOST: usize = 64;
/// How long one may last. The longest answer takes 2 s.
const LONGEST: Duration = Duration::from_secs(5);
/// Bytes of a question.
const LONGEST_HEAD: usize = 16 * 1024;
/// Wait before accepting again where that failed: no descriptors are left.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection that is open, or was until now.
#[derive(Debug)]
struct Open {
    task: AbortHandle,
    /// Its question has come.
    has_asked: Arc<AtomicBool>,
}

/// Answers for ever.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let answers = TowerToHyperService::new(router);
    let mut open = VecDeque::with_capacity(MOST);
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => {
                make_room(&mut open);
                open.push_back(answer(stream, answers.clone()));
                // What was asked already is heard before the next one can take its room.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not take a connection for health and metrics");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn make_room(open: &mut VecDeque<Open>) {
    open.retain(|one| !one.task.is_finished());
    if open.len() < MOST {
        return;
    }
    let silent = |one: &Open| !one.has_asked.load(Ordering::Relaxed);
    let oldest = open.iter().position(silent).unwrap_or(0);
    if let Some(one) = open.remove(oldest) {
        one.task.abort();
    }
}

fn answer(stream: TcpStream, answers: TowerToHyperService<Router>) -> Open {
    let has_asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&has_asked);
    let answer = service_fn(move |question| {
        asks.store(true, Ordering::Relaxed);
        answers.call(question)
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), answer);
    let task = tokio::spawn(async {
        // Whoever goes away, or says what is no question, has no answer.
        drop(tokio::time::timeout(LONGEST, connection).await);
    });
    Open {
        task: task.abort_handle(),
        has_asked,
    }
}
