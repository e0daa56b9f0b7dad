//! The agent's own DaemonSet: whether it was deleted when the agent is terminated.
//!
//! A termination has many causes: an update of the DaemonSet, a drain, the end of the node. Only after the deletion of
//! the DaemonSet does no other agent follow, and the agent removes usher from the node ([`crate::install::leave`]).
//! Helm's hook does the same before the deletion; `kubectl delete` and GitOps tools run no hooks. They delete the
//! agent's ServiceAccount and roles together with the DaemonSet, in any order, so a rejected request is evidence as well.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Node};
use kube::{Api, Client};
use usher_client::error_chain::chain;

use crate::serve::probes::Readiness;

/// How long each of the two requests may take: the kubelet kills the agent at the end of its grace period.
const TIMEOUT: Duration = Duration::from_secs(2);

const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;

pub(crate) struct OwnDaemonSet {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node_name: String,
    pub(crate) readiness: Arc<Readiness>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no response of the API server within {TIMEOUT:?}")]
    Timeout,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Error {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            Self::Api(_) | Self::Timeout => None,
        }
    }
}

impl OwnDaemonSet {
    /// Whether the DaemonSet was deleted. False where that is not certain.
    pub(crate) async fn is_deleted(&self) -> bool {
        let daemonsets: Api<DaemonSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let error = match bounded(daemonsets.get(&self.name)).await {
            Ok(daemonset) => return daemonset.metadata.deletion_timestamp.is_some(),
            Err(error) => error,
        };
        match error.status() {
            // The token is valid as long as the ServiceAccount and this pod exist.
            Some(NOT_FOUND | UNAUTHORIZED) => true,
            // The agent may never have had this permission. It had the one for its Node if it received the Node.
            Some(FORBIDDEN) if self.readiness.node_known.load(Ordering::Acquire) => {
                self.is_revoked().await
            }
            _ => {
                tracing::info!(
                    error = %chain(&error),
                    "could not check whether the DaemonSet was deleted; the CNI plugin stays installed"
                );
                false
            }
        }
    }

    /// Whether the agent may no longer get its own Node.
    async fn is_revoked(&self) -> bool {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = bounded(nodes.get_metadata(&self.node_name)).await;
        found.is_err_and(|error| matches!(error.status(), Some(FORBIDDEN | UNAUTHORIZED)))
    }
}

async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    let response = tokio::time::timeout(TIMEOUT, request).await;
    Ok(response.map_err(|_elapsed| Error::Timeout)??)
}
