//! Removes the startup taint from the agent's own Node when the agent is ready, and whenever the taint reappears.
//! [`usher_core::node::taint`] makes the patch.
//!
//! The taints are in the Node's spec, which a watch of its metadata does not include. So the agent gets the whole Node
//! after a change, at most once in [`PAUSE`].

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{Request, header};
use kube::Client;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use usher_client::{backoff::Backoff, error_chain::chain};
use usher_core::{kube_event::NodeCondition, node::taint};

use crate::{serve::probes::Readiness, telemetry::reporter::Reporter};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum time between two requests for the Node.
const PAUSE: Duration = Duration::from_secs(10);
/// Consecutive conflicts that are retried without a report, because another client changed the Node at the same time.
/// More are reported: an admission policy rejects the patch with the same status.
const CONFLICTS: u32 = 3;

pub(crate) struct StartupTaint {
    pub(crate) key: String,
    pub(crate) node_name: String,
    pub(crate) client: Client,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) reporter: Reporter,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no response within {TIMEOUT:?}")]
    Timeout,
    #[error("building the request")]
    Request(#[from] hyper::http::Error),
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

#[derive(Debug)]
enum Failure {
    Get(Error),
    Patch(Error),
}

impl Error {
    /// Whether the Node may have changed since the GET.
    fn is_conflict(&self) -> bool {
        // The status is 422 if a `test` of a JSON patch fails.
        matches!(self, Self::Kube(kube::Error::Api(status)) if [409, 422].contains(&status.code))
    }
}

#[derive(Debug, Deserialize)]
struct Node {
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Vec<Value>,
}

impl StartupTaint {
    /// Waits until the agent is ready, then removes the taint whenever the Node has it.
    pub(crate) async fn serve(self) {
        while !self.readiness.is_complete() {
            self.readiness.changed.notified().await;
        }
        let mut backoff = Backoff::with_jitter();
        // Consecutive failed patches. A failed GET does not change the number.
        let mut failures = 0;
        loop {
            let start = Instant::now();
            match self.reconcile().await {
                Ok(()) => {
                    failures = 0;
                    backoff = Backoff::with_jitter();
                    self.readiness.changed.notified().await;
                    tokio::time::sleep_until((start + PAUSE).into()).await;
                }
                Err(failure) => {
                    self.report(&failure, &mut failures);
                    backoff.tried(Instant::now());
                    tokio::time::sleep_until(backoff.due(Instant::now()).into()).await;
                }
            }
        }
    }

    async fn reconcile(&self) -> Result<(), Failure> {
        let path = format!("/api/v1/nodes/{}", self.node_name);
        let get = Request::get(&path).body(Vec::new());
        let node: Node = self.request(get).await.map_err(Failure::Get)?;
        let Some(removal) = taint::removal(&self.key, &node.spec.taints) else {
            return Ok(());
        };
        let patch = Request::patch(&path)
            .header(header::CONTENT_TYPE, "application/json-patch+json")
            .body(removal.patch.to_string().into_bytes());
        let patched: Result<IgnoredAny, Error> = self.request(patch).await;
        patched.map_err(Failure::Patch)?;
        tracing::info!(
            node = self.node_name,
            taints = removal.taints.join(", "),
            "removed the startup taint"
        );
        let condition = NodeCondition::StartupTaintRemoved(self.key.clone());
        self.reporter.events.send_node(&condition);
        Ok(())
    }

    async fn request<T: for<'de> Deserialize<'de>>(
        &self,
        request: Result<Request<Vec<u8>>, hyper::http::Error>,
    ) -> Result<T, Error> {
        let response = tokio::time::timeout(TIMEOUT, self.client.request(request?));
        Ok(response.await.map_err(|_elapsed| Error::Timeout)??)
    }

    fn report(&self, failure: &Failure, failures: &mut u32) {
        let error = match failure {
            // Not a warning: the watch on the Node reports the same failure, and the Node may have no taint.
            Failure::Get(error) => {
                tracing::debug!(error = %chain(error), "could not get the Node to look for the startup taint");
                return;
            }
            Failure::Patch(error) => error,
        };
        *failures += 1;
        if error.is_conflict() && *failures < CONFLICTS {
            tracing::debug!("another client changed the Node at the same time");
            return;
        }
        let error = chain(error);
        self.reporter.metrics.startup_taint_errors.inc();
        // Retries further failures in a row without a report.
        if *failures <= CONFLICTS {
            tracing::warn!(
                node = self.node_name,
                key = self.key,
                error,
                "could not remove the startup taint, retrying; no pod is scheduled here"
            );
            self.reporter
                .events
                .send_node(&NodeCondition::StartupTaintNotRemoved {
                    key: self.key.clone(),
                    error,
                });
        }
    }
}
