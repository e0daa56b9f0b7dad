//! The plugin's side: pods whose network namespaces have just been made.
//!
//! `usher-cni` connects, sends one [`Request`] with a descriptor of the
//! namespace, and waits for one [`Reply`]. It waits for a bounded time; what
//! takes longer here is answered to nobody, and done all the same.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, mpsc, oneshot};
use usher_client::{error_chain::chain, run_dir::socket};
use usher_core::{
    cni::protocol::{InvalidMessage, LONGEST_MESSAGE, Reply, Request},
    metric::value::Announced,
};
use usher_sys::{
    net::netns::{self, Netns},
    seqpacket::{self, Connection, Listener},
};

use crate::telemetry::metrics::Metrics;

/// Plugins that may be waiting at the same time; more wait to be accepted.
const WAITING: usize = 128;
/// How long a plugin may take to say what it wants.
const QUESTION: Duration = Duration::from_secs(1);
/// How long a pod may be thought about. The plugin does not wait as long.
const THOUGHT: Duration = Duration::from_secs(10);
/// Wait before accepting again where that failed: no descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);

/// A pod's network namespace was made.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) request: Request,
    pub(crate) netns: Netns,
    /// Takes the answer; nobody may be waiting for it any more.
    pub(crate) answer: oneshot::Sender<Reply>,
}

/// Why a plugin is sent away without an answer.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("it runs as user {uid}, not as root")]
    Peer { uid: u32 },
    #[error(transparent)]
    Connection(#[from] seqpacket::Error),
    #[error("it did not say what it wants within {QUESTION:?}")]
    Silent,
    #[error(transparent)]
    Message(#[from] InvalidMessage),
    #[error("it sent {count} descriptors, not one")]
    Descriptors { count: usize },
    #[error(transparent)]
    Netns(#[from] netns::Error),
}

/// Listens for plugins at `path`, and hands on what they announce. While it cannot, pods start unheld.
pub(crate) fn listen(path: PathBuf, metrics: Arc<Metrics>) -> mpsc::Receiver<Announcement> {
    let (announced, announcements) = mpsc::channel(WAITING);
    let is_listening = metrics.cni_listening.clone();
    tokio::spawn(socket::keep(
        path,
        "the CNI plugin is not heard and pods start unheld",
        Listener::bind,
        move |listener| accept(listener, announced.clone(), Arc::clone(&metrics)),
        move |listening| {
            is_listening.set(listening.into());
        },
    ));
    announcements
}

async fn accept(listener: Listener, announced: mpsc::Sender<Announcement>, metrics: Arc<Metrics>) {
    let permits = Arc::new(Semaphore::new(WAITING));
    loop {
        // Never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let connection = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not take an announcement of the CNI plugin");
                metrics.announcements.inc(&Announced::Failed);
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let announced = announced.clone();
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            if let Err(error) = serve(connection, announced, &metrics).await {
                metrics.announcements.inc(&Announced::Refused);
                tracing::warn!(error = %chain(&error), "sent the CNI plugin away; its pod starts unheld");
            }
            drop(permit);
        });
    }
}

async fn serve(
    connection: Connection,
    announced: mpsc::Sender<Announcement>,
    metrics: &Metrics,
) -> Result<(), Refused> {
    let uid = connection.peer()?;
    if uid != 0 {
        return Err(Refused::Peer { uid });
    }
    let mut buffer = vec![0; LONGEST_MESSAGE];
    let message = tokio::time::timeout(QUESTION, connection.receive(&mut buffer));
    let Some((length, mut descriptors)) = message.await.map_err(|_late| Refused::Silent)?? else {
        return Err(Refused::Silent);
    };
    let request = Request::decode(&buffer[..length])?;
    let count = descriptors.len();
    let netns = match (descriptors.pop(), descriptors.is_empty()) {
        (Some(only), true) => Netns::from_fd(only)?,
        _ => return Err(Refused::Descriptors { count }),
    };
    let (answer, answered) = oneshot::channel();
    let announcement = Announcement {
        request,
        netns,
        answer,
    };
    // Nobody listens only when the agent is ending.
    drop(announced.send(announcement).await);
    match tokio::time::timeout(THOUGHT, answered).await {
        Ok(Ok(reply)) => {
            metrics.announcements.inc(&reply.outcome.into());
            if let Err(error) = connection.send(&reply.encode()?) {
                tracing::debug!(error = %chain(&error), "the CNI plugin did not wait for its answer");
            }
        }
        Ok(Err(_)) | Err(_) => metrics.announcements.inc(&Announced::Unanswered),
    }
    Ok(())
}
