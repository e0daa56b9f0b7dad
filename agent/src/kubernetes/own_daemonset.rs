//! Checks during a termination whether the agent's own DaemonSet was deleted.
//!
//! A termination has many causes: an update of the DaemonSet, a drain, a shutdown of the node. After a deletion of the
//! DaemonSet no other agent follows, so this agent removes usher from the node ([`crate::install::leave`]). Helm's hook
//! does the same before the deletion; `kubectl delete` and GitOps tools run no hooks. They delete the agent's
//! ServiceAccount and roles together with the DaemonSet, in any order, so a rejected request is evidence as well.
//!
//! A rejected token (401) is weaker evidence: an API server that lost its keys, or cannot read its storage, rejects
//! valid tokens. It counts only if the watch on the Node shows that the token was valid until now, and if a second
//! request is rejected too. In doubt the plugin stays: it accepts every pod, and `usher cleanup` removes it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Node};
use kube::{Api, Client};
use usher_client::error_chain::chain;

use crate::{serve::probes::Readiness, telemetry::health::Health};

/// How long each of at most three requests may take: the kubelet kills the agent at the end of its grace period.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Delay before the second request after a rejected token.
const CONFIRMATION: Duration = Duration::from_secs(1);

const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;

pub(crate) struct OwnDaemonSet {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node_name: String,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) health: Arc<Health>,
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
    /// Whether the DaemonSet was deleted; false if uncertain.
    pub(crate) async fn is_deleted(&self) -> bool {
        let mut found = self.has_deletion().await;
        // The token stays valid while the ServiceAccount and this pod exist.
        let is_rejected = |found: &Result<bool, Error>| status(found) == Some(UNAUTHORIZED);
        if is_rejected(&found) && self.health.is_node_watched() {
            tokio::time::sleep(CONFIRMATION).await;
            found = self.has_deletion().await;
            if is_rejected(&found) {
                return true;
            }
        }
        let error = match found {
            Ok(is_deleted) => return is_deleted,
            Err(error) => error,
        };
        match error.status() {
            Some(NOT_FOUND) => true,
            // The agent may never have had this permission. If it received its Node, it had the permission for that.
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

    /// Whether the DaemonSet is being deleted.
    async fn has_deletion(&self) -> Result<bool, Error> {
        let daemonsets: Api<DaemonSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let daemonset = bounded(daemonsets.get(&self.name)).await?;
        Ok(daemonset.metadata.deletion_timestamp.is_some())
    }

    /// Whether the agent has lost the permission to get its own Node.
    async fn is_revoked(&self) -> bool {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = bounded(nodes.get_metadata(&self.node_name)).await;
        found.is_err_and(|error| matches!(error.status(), Some(FORBIDDEN | UNAUTHORIZED)))
    }
}

fn status(found: &Result<bool, Error>) -> Option<u16> {
    found.as_ref().err()?.status()
}

async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    let response = tokio::time::timeout(TIMEOUT, request).await;
    Ok(response.map_err(|_elapsed| Error::Timeout)??)
}
