//! The startup taint is taken off the own Node when the agent is ready, and whenever it is found there
//! again. What is to be changed says [`usher_core::node::taint`].
//!
//! The taints are part of the Node's spec, which the watch on its annotations does not show: the Node is
//! looked at as a whole when it has changed, once in [`PAUSE`] at most.

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

use crate::{kubernetes::events::Teller, serve::http::Readiness, telemetry::metrics::Metrics};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at a Node that changes all the time.
const PAUSE: Duration = Duration::from_secs(10);
/// A Node that somebody else changes at the same moment is looked at again; only so many times in a row
/// without complaint, since a policy of the cluster refuses with the same status.
const CONFLICTS: u32 = 3;

/// Takes the taint off.
pub(crate) struct StartupTaint {
    pub(crate) key: String,
    pub(crate) node_name: String,
    pub(crate) client: Client,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) teller: Teller,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no answer within {TIMEOUT:?}")]
    Silent,
    #[error("building the request")]
    Request(#[from] hyper::http::Error),
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

/// What did not work.
#[derive(Debug)]
enum Failure {
    Look(Error),
    Remove(Error),
}

impl Error {
    /// Whether the Node may be another than the one that was looked at.
    fn is_conflict(&self) -> bool {
        // A `test` that is not met comes as 422.
        matches!(self, Self::Kube(kube::Error::Api(status)) if [409, 422].contains(&status.code))
    }
}

/// What of a Node counts here.
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
    /// Waits until the agent is ready, then keeps the taint off for ever.
    pub(crate) async fn serve(self) {
        while !self.readiness.is_complete() {
            self.readiness.news.notified().await;
        }
        let mut backoff = Backoff::default();
        // Of removals alone: looks that fail in a row before say nothing of them.
        let mut failures = 0;
        loop {
            let looked = Instant::now();
            match self.look().await {
                Ok(()) => {
                    failures = 0;
                    backoff = Backoff::default();
                    self.readiness.news.notified().await;
                    tokio::time::sleep_until((looked + PAUSE).into()).await;
                }
                Err(failure) => {
                    self.complain(&failure, &mut failures);
                    backoff.tried(Instant::now());
                    tokio::time::sleep_until(backoff.due(Instant::now()).into()).await;
                }
            }
        }
    }

    /// Takes it off if it is there.
    async fn look(&self) -> Result<(), Failure> {
        let path = format!("/api/v1/nodes/{}", self.node_name);
        let get = Request::get(&path).body(Vec::new());
        let node: Node = self.ask(get).await.map_err(Failure::Look)?;
        let Some(removal) = taint::removal(&self.key, &node.spec.taints) else {
            return Ok(());
        };
        let patch = Request::patch(&path)
            .header(header::CONTENT_TYPE, "application/json-patch+json")
            .body(removal.patch.to_string().into_bytes());
        let patched: Result<IgnoredAny, Error> = self.ask(patch).await;
        patched.map_err(Failure::Remove)?;
        tracing::info!(
            node = self.node_name,
            taints = removal.taints.join(", "),
            "removed the startup taint"
        );
        let key = self.key.clone();
        self.teller.node(&NodeCondition::StartupTaintRemoved(key));
        Ok(())
    }

    async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        request: Result<Request<Vec<u8>>, hyper::http::Error>,
    ) -> Result<T, Error> {
        let answer = tokio::time::timeout(TIMEOUT, self.client.request(request?));
        Ok(answer.await.map_err(|_elapsed| Error::Silent)??)
    }

    fn complain(&self, failure: &Failure, failures: &mut u32) {
        let error = match failure {
            // The watch on the Node complains as well, and the taint may be long gone.
            Failure::Look(error) => {
                tracing::debug!(error = %chain(error), "could not look for the startup taint");
                return;
            }
            Failure::Remove(error) => error,
        };
        *failures += 1;
        if error.is_conflict() && *failures < CONFLICTS {
            tracing::debug!("somebody else changed the Node at the same moment");
            return;
        }
        let error = chain(error);
        self.metrics.startup_taint_errors.inc();
        // Once in a row of failures, and it goes on.
        if *failures <= CONFLICTS {
            tracing::warn!(
                node = self.node_name,
                key = self.key,
                error,
                "could not remove the startup taint, trying again; no pod is scheduled here"
            );
            self.teller.node(&NodeCondition::StartupTaintNotRemoved {
                key: self.key.clone(),
                error,
            });
        }
    }
}
