//! The CNI socket: the plugin announces each pod that has a new network namespace.
//!
//! `usher-cni` connects, sends one [`Request`] with a descriptor of the namespace, and waits a bounded time for one
//! [`Reply`]. The runtime starts no container of the pod before the plugin ends, so while its connection is open no
//! container runs. The event loop ignores a request whose plugin has gone: its containers may run, and the agent may not
//! have observed them yet. The agent then finds the pod like one that was not announced.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, mpsc, oneshot};
use usher_client::{error_chain::chain, run_dir::socket};
use usher_core::{
    cni::protocol::{InvalidMessage, LONGEST_MESSAGE, Reply, Request},
    metric::value::AnnouncementResult,
};
use usher_sys::{
    net::netns::{self, Netns},
    seqpacket::{self, Connection, Listener},
};

use crate::telemetry::metrics::Metrics;

/// Plugins that wait for a reply at the same time. Further connections wait in the backlog.
const WAITING: usize = 128;
/// How long a plugin may take to send its request.
const REQUEST: Duration = Duration::from_secs(1);
/// How long the event loop may take to reply. The plugin's own timeout is shorter.
const REPLY: Duration = Duration::from_secs(10);
/// Wait after a failed accept: no descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);

/// A pod has a new network namespace.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) request: Request,
    pub(crate) netns: Netns,
    /// Closed when the plugin has stopped waiting.
    pub(crate) plugin: Arc<Connection>,
    pub(crate) reply: oneshot::Sender<Reply>,
}

/// Why a plugin receives no reply.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the plugin runs as user {uid}, not as root")]
    Peer { uid: u32 },
    #[error(transparent)]
    Connection(#[from] seqpacket::Error),
    #[error("the plugin sent no request within {REQUEST:?}")]
    Timeout,
    #[error(transparent)]
    Message(#[from] InvalidMessage),
    #[error("the request has {count} descriptors instead of one")]
    Descriptors { count: usize },
    #[error(transparent)]
    Netns(#[from] netns::Error),
}

/// Listens for plugins at `path`. Pods start unheld while listening fails.
pub(crate) fn listen(path: PathBuf, metrics: Arc<Metrics>) -> mpsc::Receiver<Announcement> {
    let (announced, announcements) = mpsc::channel(WAITING);
    let is_listening = metrics.cni_listening.clone();
    tokio::spawn(socket::keep(
        path,
        "pods start unheld",
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
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let connection = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not accept a connection of the CNI plugin");
                metrics.announcements.inc(&AnnouncementResult::Failed);
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let announced = announced.clone();
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            if let Err(error) = serve(connection, announced, &metrics).await {
                metrics.announcements.inc(&AnnouncementResult::Refused);
                tracing::warn!(error = %chain(&error), "rejected a request of the CNI plugin; its pod starts unheld");
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
    let message = tokio::time::timeout(REQUEST, connection.receive(&mut buffer));
    let Some((length, mut descriptors)) = message.await.map_err(|_late| Refused::Timeout)?? else {
        // `usher cleanup` only checks that an agent listens.
        return Ok(());
    };
    let request = Request::decode(&buffer[..length])?;
    let count = descriptors.len();
    let netns = match (descriptors.pop(), descriptors.is_empty()) {
        (Some(only), true) => Netns::from_fd(only)?,
        _ => return Err(Refused::Descriptors { count }),
    };
    let (reply, replied) = oneshot::channel();
    let connection = Arc::new(connection);
    let announcement = Announcement {
        request,
        netns,
        plugin: Arc::clone(&connection),
        reply,
    };
    // Fails only when the agent is ending.
    drop(announced.send(announcement).await);
    let reply = tokio::select! {
        biased;
        reply = tokio::time::timeout(REPLY, replied) => reply.ok().and_then(Result::ok),
        // A plugin sends nothing else, so it has gone. Its slot is free for the next one.
        _closed = connection.receive(&mut buffer) => None,
    };
    match reply {
        Some(reply) => {
            metrics.announcements.inc(&reply.outcome.into());
            if let Err(error) = connection.send(&reply.encode()?) {
                tracing::debug!(error = %chain(&error), "the CNI plugin stopped waiting for its reply");
            }
        }
        None => metrics.announcements.inc(&AnnouncementResult::Unanswered),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd};

    use futures::future;
    use usher_core::{base::id::SandboxId, cni::protocol::PodName};

    use super::*;

    #[tokio::test]
    async fn check_whether_an_agent_listens_is_no_request() {
        let (connection, peer) = Connection::pair().unwrap();
        drop(peer);
        let (announced, _announcements) = mpsc::channel(1);
        let metrics = Metrics::new();
        assert!(serve(connection, announced, &metrics).await.is_ok());
    }

    /// Otherwise its slot would be missing for the next plugin, for as long as the event loop may take.
    #[tokio::test]
    async fn plugin_that_has_gone_is_not_served() {
        let (connection, peer) = Connection::pair().unwrap();
        let request = Request {
            pod: PodName {
                namespace: "shop".to_owned(),
                name: "report".to_owned(),
                uid: None,
            },
            sandbox: SandboxId::parse("5a").unwrap(),
            interface: "eth0".to_owned(),
        };
        let netns = File::open("/proc/self/ns/net").unwrap();
        let request = request.encode().unwrap();
        peer.send(&request, &[netns.as_fd()]).unwrap();
        let (announced, mut announcements) = mpsc::channel(1);
        let metrics = Metrics::new();
        let plugin = async {
            let announcement = announcements.recv().await.unwrap();
            drop(peer);
            announcement
        };
        let served = serve(connection, announced, &metrics);
        let both = tokio::time::timeout(REPLY / 2, future::join(served, plugin));
        let (served, announcement) = both.await.expect("served no longer");
        served.unwrap();
        assert!(announcement.reply.is_closed());
        let unanswered = &AnnouncementResult::Unanswered;
        assert_eq!(metrics.announcements.get(unanswered), 1);
    }
}
