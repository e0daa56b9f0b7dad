//! Reads the annotations and labels of each Namespace that has a pod on this node, one request each.
//!
//! The run directory keeps the last values, which stay in use while requests for a Namespace fail, for any reason. A
//! rejected request (403) is no exception: an API server that has just started rejects every request, and the Namespace
//! may opt out.

mod cache;
mod unread;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    core::{PartialObjectMeta, Status},
};
use tokio::sync::mpsc;
use tracing::Instrument;
use usher_client::{error_chain::chain, run_dir::namespaces::Kept};
use usher_core::{
    NamespaceReply,
    metric::value::NamespaceResult,
    settings::{
        bound,
        overrides::{NamespaceValues, Values},
    },
};

use self::{
    cache::Cache,
    unread::{Unread, effect},
};
use crate::{event_loop::Input, telemetry::reporter::Reporter};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads Namespaces for the event loop.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces {
    reporter: Reporter,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    cache: Cache,
    unread: Unread,
}

impl Namespaces {
    pub(crate) fn new(run_dir: PathBuf, reporter: Reporter) -> Self {
        let cache = Cache::load(run_dir, Arc::clone(&reporter.metrics));
        let unread = Unread::default();
        Self {
            reporter,
            state: Arc::new(Mutex::new(State { cache, unread })),
        }
    }

    /// Serves until the channel is closed. Without a client (`--api-server off`) a Namespace has no values.
    pub(crate) async fn serve(
        self,
        client: Option<Client>,
        mut requests: mpsc::Receiver<String>,
        inputs: mpsc::Sender<Input>,
    ) {
        while let Some(name) = requests.recv().await {
            let (this, client, inputs) = (self.clone(), client.clone(), inputs.clone());
            let span = tracing::debug_span!("namespace", name);
            let get = async move {
                let reply = match client {
                    None => NamespaceReply::Read(NamespaceValues::default()),
                    Some(client) => this.get(client, &name).await,
                };
                // Fails only during the agent's shutdown.
                drop(inputs.send(Input::Namespace(name, reply)).await);
            };
            tokio::spawn(get.instrument(span.or_current()));
        }
    }

    async fn get(&self, client: Client, name: &str) -> NamespaceReply {
        let api: Api<Namespace> = Api::all(client);
        let response = tokio::time::timeout(TIMEOUT, api.get_metadata(name)).await;
        match response {
            Ok(Ok(namespace)) => {
                self.succeeded(name, NamespaceResult::Ok);
                let values = own_values(namespace);
                NamespaceReply::Read(self.state().cache.keep(name, values))
            }
            Ok(Err(kube::Error::Api(status))) if does_not_exist(&status, name) => {
                self.succeeded(name, NamespaceResult::NotFound);
                // Deleted before its pods: its last values apply. A static pod's Namespace may never have existed.
                let last = self.state().cache.last_values(name);
                NamespaceReply::Read(last.unwrap_or_default())
            }
            Ok(Err(error)) => {
                let result = match &error {
                    kube::Error::Api(status) if status.is_forbidden() => NamespaceResult::Forbidden,
                    _ => NamespaceResult::Failed,
                };
                self.failed(name, result, &chain(&error))
            }
            Err(_elapsed) => {
                let error = format!("no response within {TIMEOUT:?}");
                self.failed(name, NamespaceResult::Failed, &error)
            }
        }
    }

    fn succeeded(&self, name: &str, result: NamespaceResult) {
        self.reporter.metrics.namespace_requests.inc(&result);
        let mut state = self.state();
        if state.unread.succeeded(Instant::now(), name) {
            tracing::info!(namespace = name, "read the Namespace again");
        }
        let lines = state.unread.lines();
        self.reporter.health.set_unread_namespaces(lines);
    }

    fn failed(&self, name: &str, result: NamespaceResult, error: &str) -> NamespaceReply {
        self.reporter.metrics.namespace_requests.inc(&result);
        let mut state = self.state();
        let last = state.cache.last_values(name);
        let now = Instant::now();
        let (failures, condition) = state.unread.failed(now, name, error, last.is_some());
        let lines = state.unread.lines();
        drop(state);
        self.reporter.health.set_unread_namespaces(lines);
        if let Some(condition) = condition {
            self.reporter.events.send_node(&condition);
        }
        let effect = effect(last.is_some());
        if failures == 1 {
            tracing::warn!(
                namespace = name,
                error,
                "could not get the Namespace, retrying: {effect}"
            );
        } else {
            tracing::debug!(
                namespace = name,
                error,
                failures,
                "could not get the Namespace again: {effect}"
            );
        }
        NamespaceReply::Failed { last }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the API server reports that the object of this name does not exist. A 404 without details comes from a proxy,
/// or from a server that does not serve such objects yet.
pub(super) fn does_not_exist(status: &Status, name: &str) -> bool {
    let details = status.details.as_ref();
    status.is_not_found() && details.is_some_and(|details| details.name == name)
}

/// Selects the annotations and labels that usher reads.
fn own_values(namespace: PartialObjectMeta<Namespace>) -> Kept {
    let ours = |values: Option<Values>| bound::of_namespace(values.unwrap_or_default());
    Kept {
        annotations: ours(namespace.metadata.annotations),
        labels: ours(namespace.metadata.labels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_api_server_itself_can_report_a_missing_namespace() {
        let parse = |json| serde_json::from_value::<Status>(json).unwrap();
        let missing = serde_json::json!({
            "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "namespaces \"shop\" not found", "details": {"name": "shop", "kind": "namespaces"},
        });
        assert!(does_not_exist(&parse(missing.clone()), "shop"));
        assert!(!does_not_exist(&parse(missing), "another"));
        let no_details = serde_json::json!({
            "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "the server could not find the requested resource", "details": {},
        });
        assert!(!does_not_exist(&parse(no_details), "shop"));
        let page = Status::failure("404 page not found", "Failed to parse error data");
        assert!(!does_not_exist(&page.with_code(404), "shop"));
    }

    #[test]
    fn many_annotations_and_labels_do_not_hide_an_opt_out() {
        let values = || -> Values {
            let many = (0..1000).map(|number| (format!("usher.dev/a{number}"), "x".to_owned()));
            many.chain([("usher.dev/quit".to_owned(), "false".to_owned())])
                .collect()
        };
        let mut namespace = PartialObjectMeta::<Namespace>::default();
        namespace.metadata.annotations = Some(values());
        namespace.metadata.labels = Some(values());
        let kept = own_values(namespace);
        for kept in [kept.annotations, kept.labels] {
            assert_eq!(kept.len(), 1, "{kept:?}");
            assert_eq!(kept["usher.dev/quit"], "false");
        }
    }
}
