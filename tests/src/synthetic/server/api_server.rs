//! A stand-in for the API server: one Node, Namespaces with configurable annotations, Events that are kept.
//!
//! It answers only the requests that the agent is permitted to send, and records every request. The agent finds
//! it by a kubeconfig ([`crate::synthetic::Agent::start_with_api`]). It can be unavailable, not respond, lose responses,
//! reject requests, and end watches.

mod objects;
mod server;

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::listener;
use crate::synthetic::{layout, node};
use crate::wait::patience;

use self::objects::Objects;

/// A received request.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub method: String,
    /// The path, without the query.
    pub path: String,
    pub query: String,
    pub body: Value,
    pub at: Instant,
}

impl ReceivedRequest {
    /// Verb and resource, in RBAC terms.
    pub fn right(&self) -> String {
        let path = self.path.trim_start_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let (resource, named) = match parts.as_slice() {
            ["api", "v1", "namespaces", _, resource, rest @ ..]
            | ["apis", _, _, "namespaces", _, resource, rest @ ..]
            | ["api", "v1", resource, rest @ ..] => (*resource, !rest.is_empty()),
            _ => (path, true),
        };
        let watched = self.query.split('&').any(|pair| pair == "watch=true");
        let verb = match (self.method.as_str(), named) {
            ("GET", false) if watched => "watch",
            ("GET", false) => "list",
            ("GET", true) => "get",
            ("POST", _) => "create",
            ("PATCH", _) => "patch",
            (other, _) => other,
        };
        format!("{verb} {resource}")
    }
}

/// The failure of one request for an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// None.
    Spared,
    /// The request is executed, and the response is lost.
    Lost,
    /// The request gets this status and `Retry-After`, and is not executed.
    Status(u16, Option<u32>),
}

/// The agents' DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonSet {
    Exists,
    /// It exists until its pods have ended: foreground deletion.
    Terminates,
    Deleted,
}

#[derive(Debug)]
struct Situation {
    objects: Objects,
    requests: Vec<ReceivedRequest>,
    troubles: Vec<Trouble>,
    /// It does not respond, and watches break.
    away: bool,
    /// Requests for Events are read, and get no response for now.
    silent: bool,
    /// The connections of those requests.
    kept: Vec<TcpStream>,
    /// The number of ended watches: earlier watches are closed.
    watches: u64,
    /// They end with the status that their version is too old.
    expired: bool,
    /// A taint that another client adds right after the next read of the Node.
    race: Option<Value>,
    /// Permissions that the agent lacks: verb and resource.
    forbidden: BTreeSet<&'static str>,
    /// Permissions that the next request of that kind lacks.
    forbidden_once: BTreeSet<&'static str>,
    /// The agent's token is invalid.
    unauthorized: bool,
    /// Verb and resource of the next request of that kind, for which the token is rejected.
    rejected_once: Option<&'static str>,
    closing: bool,
}

#[derive(Debug)]
struct Shared {
    situation: Mutex<Situation>,
    changed: Condvar,
}

impl Shared {
    fn situation(&self) -> MutexGuard<'_, Situation> {
        self.situation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Situation) -> T) -> T {
        let outcome = change(&mut self.situation());
        self.changed.notify_all();
        outcome
    }
}

/// The stand-in, closed on drop.
#[derive(Debug)]
pub struct ApiServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    kubeconfig: PathBuf,
}

impl ApiServer {
    /// Starts it with the Node of the agents that are started here.
    ///
    /// # Panics
    ///
    /// If there is no free port or no place for a file.
    pub fn start() -> Self {
        let shared = Arc::new(Shared {
            situation: Mutex::new(Situation {
                objects: Objects::new(node::NAME),
                requests: Vec::new(),
                troubles: Vec::new(),
                away: false,
                silent: false,
                kept: Vec::new(),
                watches: 0,
                expired: false,
                race: None,
                forbidden: BTreeSet::new(),
                forbidden_once: BTreeSet::new(),
                unauthorized: false,
                rejected_once: None,
                closing: false,
            }),
            changed: Condvar::new(),
        });
        let address = server::listen(&shared);
        let name = layout::name(&format!("kubeconfig-{}", address.port()));
        let kubeconfig = layout::scratch_parent().join(name);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "it", "user": {}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).expect("/tmp is writable");
        Self {
            shared,
            address,
            kubeconfig,
        }
    }

    /// The value of `KUBECONFIG`.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Replaces the Node's annotations.
    pub fn annotate(&self, annotations: &[(&str, &str)]) {
        let object = object(annotations);
        self.shared
            .change(|situation| situation.objects.annotate(object));
    }

    /// Replaces the Node's labels.
    pub fn label(&self, labels: &[(&str, &str)]) {
        let object = object(labels);
        self.shared
            .change(|situation| situation.objects.label(object));
    }

    /// Replaces a Namespace's annotations.
    pub fn annotate_namespace(&self, name: &str, annotations: &[(&str, &str)]) {
        let object = object(annotations);
        self.shared
            .change(|situation| situation.objects.annotate_namespace(name, object));
    }

    /// Replaces the Node's taints.
    pub fn taint(&self, taints: Value) {
        self.shared
            .change(|situation| situation.objects.taint(taints));
    }

    pub fn taints(&self) -> Value {
        self.shared.situation().objects.taints()
    }

    /// Another client adds this taint right after the next read of the whole Node.
    pub fn race(&self, taint: Value) {
        self.shared.change(|situation| situation.race = Some(taint));
    }

    /// Revokes a permission, such as `get namespaces`.
    pub fn forbid(&self, right: &'static str) {
        self.shared.change(|situation| {
            situation.forbidden.insert(right);
        });
    }

    /// Rejects the next request of this kind, as a server that has just started does.
    pub fn forbid_once(&self, right: &'static str) {
        self.shared.change(|situation| {
            situation.forbidden_once.insert(right);
        });
    }

    /// Grants a permission again.
    pub fn allow(&self, right: &'static str) {
        self.shared.change(|situation| {
            situation.forbidden.remove(right);
        });
    }

    /// Invalidates the agent's token, as the deletion of its ServiceAccount does.
    pub fn invalidate_token(&self) {
        self.shared
            .change(|situation| situation.unauthorized = true);
    }

    /// Rejects the valid token of the next request of this kind, such as `get daemonsets`.
    pub fn reject_token_once(&self, right: &'static str) {
        self.shared
            .change(|situation| situation.rejected_once = Some(right));
    }

    /// Changes the agents' DaemonSet. There is none before.
    pub fn set_daemonset(&self, daemonset: DaemonSet) {
        self.shared
            .change(|situation| situation.objects.set_daemonset(daemonset));
    }

    /// Begins to delete a namespace: its objects still exist.
    pub fn terminate_namespace(&self, name: &str) {
        self.shared
            .change(|situation| situation.objects.terminate_namespace(name));
    }

    /// Deletes a namespace: objects can no longer be created in it.
    pub fn delete_namespace(&self, name: &str) {
        self.shared
            .change(|situation| situation.objects.delete_namespace(name));
    }

    /// Makes the server unavailable, or available again.
    pub fn away(&self, away: bool) {
        self.shared.change(|situation| situation.away = away);
    }

    /// Delays the response to every Event request from now on, or responds to all of them.
    pub fn silent(&self, silent: bool) {
        self.shared.change(|situation| {
            situation.silent = silent;
            situation.kept.clear();
        });
    }

    /// Waits until a request waits for a silent server.
    pub fn wait_kept(&self) {
        self.wait("a request to be kept", |situation| {
            (!situation.kept.is_empty()).then_some(())
        });
    }

    /// The number of requests that wait for a silent server and are still connected.
    pub fn kept(&self) -> usize {
        let situation = self.shared.situation();
        let waiting = situation
            .kept
            .iter()
            .filter(|stream| server::is_open(stream));
        waiting.count()
    }

    /// Fails the next requests for Events, one for each entry.
    pub fn trouble(&self, troubles: &[Trouble]) {
        self.shared
            .change(|situation| situation.troubles = troubles.to_vec());
    }

    /// Ends the watches, as the server does periodically.
    pub fn end_watches(&self, expired: bool) {
        self.shared.change(|situation| {
            situation.watches += 1;
            situation.expired = expired;
        });
    }

    pub fn events(&self) -> Vec<Value> {
        self.shared.situation().objects.events()
    }

    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.situation().requests.clone()
    }

    /// The requests with this verb and resource.
    pub fn requests_for(&self, right: &str) -> Vec<ReceivedRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.right() == right);
        requests
    }

    /// Waits until `found` returns a value for the Events.
    pub fn wait_events<T>(&self, what: &str, found: impl Fn(&[Value]) -> Option<T>) -> T {
        self.wait(what, |situation| found(&situation.objects.events()))
    }

    /// Waits until the Node's taints are as expected.
    pub fn wait_taints(&self, what: &str, wanted: impl Fn(&Value) -> bool) {
        self.wait(what, |situation| {
            wanted(&situation.objects.taints()).then_some(())
        });
    }

    /// Waits for this number of requests with this verb and resource.
    pub fn wait_requests(&self, right: &str, count: usize) {
        self.wait(&format!("{count} times {right}"), |situation| {
            let all = situation.requests.iter();
            (all.filter(|request| request.right() == right).count() >= count).then_some(())
        });
    }

    fn wait<T>(&self, what: &str, found: impl Fn(&Situation) -> Option<T>) -> T {
        let deadline = Instant::now() + patience();
        let mut situation = self.shared.situation();
        loop {
            if let Some(outcome) = found(&situation) {
                return outcome;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let (events, count) = (situation.objects.events(), situation.requests.len());
                drop(situation);
                panic!("timed out waiting for {what}; after {count} requests: {events:#?}");
            }
            let waited = self.shared.changed.wait_timeout(situation, left);
            situation = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Annotations as a JSON object.
fn object(annotations: &[(&str, &str)]) -> Value {
    let pairs = annotations.iter();
    let pairs = pairs.map(|(key, value)| ((*key).to_owned(), json!(value)));
    Value::Object(pairs.collect())
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shared.change(|situation| situation.closing = true);
        listener::wake(self.address);
        // The next run removes what is left.
        drop(std::fs::remove_file(&self.kubeconfig));
    }
}
