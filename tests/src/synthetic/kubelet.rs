//! A stand-in for the kubelet: HTTP/1.1 on loopback, one path, one token.
//!
//! `GET /pods` answers with a `v1` `PodList` of the node's pods. The specs are
//! current at once. The age of the statuses is configurable: the real
//! kubelet serves API pods with the status that last came back from
//! the API server.

mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::synthetic::ledger::{ContainerRecord, Ledger, PodRecord};
use crate::synthetic::{listener, manifest};
use crate::wait::patience;

/// The bearer token that the stand-in takes.
pub const TOKEN: &str = "synthetic-node-token";
/// Measured on a real node: an exit is in `/pods` after 0.2 to 1.1 s.
const STATUS_LAG: Duration = Duration::from_millis(500);

/// How the stand-in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// As the kubelet does.
    Ok,
    /// With this status and a short text.
    Status(u16),
    /// 200, and JSON that ends in the middle.
    TruncatedJson,
    /// Not at all; the connection stays open.
    Silence,
}

#[derive(Debug)]
struct Situation {
    behaviour: Behaviour,
    /// It is silent after the next answer.
    once: bool,
    status_lag: Duration,
    /// Answers begun, by behaviour.
    asked: Vec<Behaviour>,
    closing: bool,
}

/// The stand-in. Closed on drop.
#[derive(Debug)]
pub struct Kubelet {
    shared: Arc<Shared>,
    address: SocketAddr,
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

    /// The list of pods as of now.
    fn pod_list(&self, status_lag: Duration) -> String {
        let now = Instant::now();
        let mut text =
            String::from(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#);
        let mut first = true;
        for record in self.ledger.pods().values() {
            if !std::mem::take(&mut first) {
                text.push(',');
            }
            text.push_str(&manifest::whole(record, as_of(record, now, status_lag)));
        }
        text.push_str("]}\n");
        text
    }
}

/// The containers as they were `lag` ago; None when the pod was not there.
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
    /// Serves the pods of this ledger.
    pub(crate) fn serve(ledger: Arc<Ledger>) -> Self {
        let shared = Arc::new(Shared {
            ledger,
            situation: Mutex::new(Situation {
                behaviour: Behaviour::Ok,
                once: false,
                status_lag: STATUS_LAG,
                asked: Vec::new(),
                closing: false,
            }),
            changed: Condvar::new(),
        });
        let address = server::listen(&shared);
        Self { shared, address }
    }

    /// For `--kubelet`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it answers like this; requests that wait in silence are cut
    /// off.
    pub fn behave(&self, behaviour: Behaviour) {
        self.shared.situation().behaviour = behaviour;
        self.shared.changed.notify_all();
    }

    /// It answers the next request, and says nothing to those after it.
    pub fn answer_once(&self) {
        self.shared.situation().once = true;
    }

    /// From now on statuses are this old. [`Duration::MAX`] shows none at all.
    pub fn lag(&self, status_lag: Duration) {
        self.shared.situation().status_lag = status_lag;
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.shared.situation().asked.len()
    }

    /// Waits until it was asked this many times while it behaved like this.
    ///
    /// # Panics
    ///
    /// When that takes too long.
    pub fn wait_asked(&self, behaviour: Behaviour, times: usize) {
        let deadline = Instant::now() + patience();
        let mut situation = self.shared.situation();
        let count = |situation: &Situation| {
            let asked = situation.asked.iter();
            asked.filter(|asked| **asked == behaviour).count()
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
