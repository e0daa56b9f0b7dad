//! A stand-in for the kubelet: HTTP/1.1 on loopback, one path, one token.
//!
//! `GET /pods` answers with a `v1` `PodList` of the node's pods. The specs are current at once. The
//! age of the statuses is configurable: the real kubelet serves API pods with the latest status
//! that it received from the API server.

mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::listener;
use crate::synthetic::ledger::{ContainerRecord, Ledger, PodRecord};
use crate::synthetic::manifest;
use crate::wait::patience;

/// The bearer token that the stand-in accepts.
pub const TOKEN: &str = "synthetic-node-token";
/// A list up to its first pod.
const LIST: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#;
/// Measured on a real node: an exit is in `/pods` after 0.2 to 1.1 s.
const STATUS_LAG: Duration = Duration::from_millis(500);

/// The behaviour of the stand-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Like the kubelet.
    Ok,
    /// Responds with this status and a short text.
    Status(u16),
    /// Responds with 200 and truncated JSON.
    TruncatedJson,
    /// Does not respond; the connection stays open.
    Silence,
}

/// Additional pods that only the kubelet lists, before those of the node.
#[derive(Debug, Clone, Copy)]
pub struct Bulk {
    pub pods: usize,
    /// The JSON of a pod.
    pub pod: fn(usize) -> String,
}

#[derive(Debug)]
struct Situation {
    behaviour: Behaviour,
    bulk: Option<Bulk>,
    /// The server is silent after the next response.
    once: bool,
    status_lag: Duration,
    /// The behaviour for each request so far.
    requests: Vec<Behaviour>,
    closing: bool,
}

/// The stand-in, closed on drop.
#[derive(Debug)]
pub struct Kubelet {
    shared: Arc<Shared>,
    address: SocketAddr,
    front: OnceLock<String>,
}

#[derive(Debug)]
struct Shared {
    ledger: Arc<Ledger>,
    situation: Mutex<Situation>,
    changed: Condvar,
}

impl Shared {
    fn situation(&self) -> MutexGuard<'_, Situation> {
        self.situation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn pod_list(&self, status_lag: Duration) -> String {
        let pods = self.pods(status_lag).join(",");
        format!("{LIST}{pods}]}}\n")
    }

    /// The pods of the node.
    fn pods(&self, status_lag: Duration) -> Vec<String> {
        let now = Instant::now();
        let pods = self.ledger.pods();
        pods.values()
            .map(|record| manifest::whole(record, as_of(record, now, status_lag)))
            .collect()
    }
}

/// The containers as they were `lag` ago; None if the pod did not exist.
fn as_of(
    record: &PodRecord,
    now: Instant,
    lag: Duration,
) -> Option<&BTreeMap<String, ContainerRecord>> {
    let then = now.checked_sub(lag)?;
    let known = record.history.iter().rev().find(|(at, _)| *at <= then);
    known.map(|(_, containers)| containers)
}

impl Kubelet {
    pub(crate) fn serve(ledger: Arc<Ledger>) -> Self {
        let shared = Arc::new(Shared {
            ledger,
            situation: Mutex::new(Situation {
                behaviour: Behaviour::Ok,
                bulk: None,
                once: false,
                status_lag: STATUS_LAG,
                requests: Vec::new(),
                closing: false,
            }),
            changed: Condvar::new(),
        });
        let address = server::listen(&shared);
        Self {
            shared,
            address,
            front: OnceLock::new(),
        }
    }

    /// The value of `--kubelet`.
    pub fn url(&self) -> String {
        let front = self.front.get().cloned();
        front.unwrap_or_else(|| format!("http://{}", self.address))
    }

    /// Its address without TLS.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Agents that start from now on connect to this proxy of it.
    pub fn proxied_at(&self, url: String) {
        self.front.set(url).expect("it has one proxy");
    }

    /// Changes its behaviour; cuts off requests that wait in
    /// silence.
    pub fn behave(&self, behaviour: Behaviour) {
        self.shared.situation().behaviour = behaviour;
        self.shared.changed.notify_all();
    }

    /// Lists these pods as well, from the next request on.
    pub fn list_also(&self, bulk: Option<Bulk>) {
        self.shared.situation().bulk = bulk;
    }

    /// Responds to the next request, and not to later ones.
    pub fn answer_once(&self) {
        self.shared.situation().once = true;
    }

    /// Sets the age of statuses. [`Duration::MAX`] omits all statuses.
    pub fn lag(&self, status_lag: Duration) {
        self.shared.situation().status_lag = status_lag;
    }

    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.shared.situation().requests.len()
    }

    /// Waits for this number of requests during this behaviour.
    ///
    /// # Panics
    ///
    /// After a timeout.
    pub fn wait_requests(&self, behaviour: Behaviour, times: usize) {
        let deadline = Instant::now() + patience();
        let mut situation = self.shared.situation();
        let count = |situation: &Situation| {
            let requests = situation.requests.iter();
            requests.filter(|request| **request == behaviour).count()
        };
        while count(&situation) < times {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the kubelet received no request");
            let waited = self.shared.changed.wait_timeout(situation, left);
            situation = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.shared.situation().closing = true;
        self.shared.changed.notify_all();
        listener::wake(self.address);
    }
}
