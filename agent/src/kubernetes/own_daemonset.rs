//! Checks during a termination whether the agent's own DaemonSet was deleted.
//!
//! A termination has many causes: an update of the DaemonSet, a drain, a shutdown of the node. After a deletion of the
//! DaemonSet no other agent follows, so this agent removes usher from the node ([`crate::install::cleanup`]). Helm's hook
//! does the same before the deletion; `kubectl delete` and GitOps tools run no hooks. They delete the agent's
//! ServiceAccount and roles together with the DaemonSet, in any order, so a rejected request is evidence as well.
//!
//! A rejected request is weaker evidence: an API server that has just started rejects every request (403), and one
//! that lost its keys, or cannot read its storage, rejects valid tokens (401). It counts only if the watch on the Node
//! shows that the requests were valid until now, and if they are rejected a second time. In doubt the plugin stays: it
//! accepts every pod, and `usher cleanup` removes it.
//!
//! A missing DaemonSet (404) may be one with another name: Kustomize's `namePrefix` changes the name of the object, but
//! not the agent's flag. So it counts only if the agent has read the DaemonSet before.
//!
//! A deletion of the Namespace deletes the pods first, and the DaemonSet after them
//! ([KEP-5080](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5080-ordered-namespace-deletion),
//! Kubernetes 1.33). So where the DaemonSet exists, the Namespace must exist undeleted as well. A failed request for the
//! Namespace is no evidence.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Namespace, Node},
};
use kube::{Api, Client};
use usher_client::{error_chain::chain, jitter};

use super::namespaces::does_not_exist;
use crate::telemetry::health::Health;

/// How long each of at most four requests may take: the kubelet kills the agent at the end of its grace period.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Delay before the requests are sent again after a rejection.
const CONFIRMATION: Duration = Duration::from_secs(1);
/// Delay before the agent tries again to read its DaemonSet, shorter by a random part of up to a half.
const RETRY: Duration = Duration::from_mins(5);

const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;

pub(crate) struct OwnDaemonSet {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node_name: String,
    pub(crate) health: Arc<Health>,
    /// Whether the agent has read the DaemonSet.
    pub(crate) was_read: AtomicBool,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no response of the API server within {TIMEOUT:?}")]
    Timeout,
    #[error("the agent has never found a DaemonSet {0:?}, so its name may be another one")]
    NeverRead(String),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Error {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            Self::Api(_) | Self::Timeout | Self::NeverRead(_) => None,
        }
    }

    /// Whether the API server reports that there is no object of this name.
    fn is_missing(&self, name: &str) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if does_not_exist(status, name))
    }
}

/// What the API server reports about the DaemonSet and its Namespace.
enum Finding {
    Exists,
    Deleted,
    /// The agent has lost its token or its roles, or the API server rejects every request.
    Rejected(Error),
    Unknown(Error),
}

impl OwnDaemonSet {
    /// Ends when the agent has read its DaemonSet, or there is none of this name.
    pub(crate) async fn confirm(&self) {
        while let Err(error) = self.read().await {
            tracing::debug!(name = self.name, error = %chain(&error), "could not read the agent's DaemonSet");
            if error.is_missing(&self.name) {
                return;
            }
            tokio::time::sleep(RETRY - jitter::up_to(RETRY / 2)).await;
        }
    }

    /// Whether the DaemonSet was deleted; false if uncertain.
    pub(crate) async fn is_deleted(&self) -> bool {
        let mut finding = self.find().await;
        if matches!(finding, Finding::Rejected(_)) && self.health.is_node_watched() {
            tokio::time::sleep(CONFIRMATION).await;
            finding = self.find().await;
            if matches!(finding, Finding::Rejected(_)) {
                return true;
            }
        }
        match finding {
            Finding::Exists => false,
            Finding::Deleted => true,
            Finding::Rejected(error) | Finding::Unknown(error) => {
                tracing::info!(
                    error = %chain(&error),
                    "could not check whether the DaemonSet was deleted; the CNI plugin stays installed"
                );
                false
            }
        }
    }

    async fn find(&self) -> Finding {
        let error = match self.read().await {
            Ok(daemonset) if daemonset.metadata.deletion_timestamp.is_some() => {
                return Finding::Deleted;
            }
            Ok(_) if self.is_namespace_deleted().await => return Finding::Deleted,
            Ok(_) => return Finding::Exists,
            Err(error) => error,
        };
        if error.is_missing(&self.name) {
            return match self.was_read.load(Ordering::Acquire) {
                true => Finding::Deleted,
                false => Finding::Unknown(Error::NeverRead(self.name.clone())),
            };
        }
        match error.status() {
            // The token stays valid while the ServiceAccount and this pod exist.
            Some(UNAUTHORIZED) => Finding::Rejected(error),
            // The agent may never have had this permission, but it had the one for its Node.
            Some(FORBIDDEN) if self.is_node_rejected().await => Finding::Rejected(error),
            _ => Finding::Unknown(error),
        }
    }

    async fn read(&self) -> Result<DaemonSet, Error> {
        let daemonsets: Api<DaemonSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let daemonset = bounded(daemonsets.get(&self.name)).await?;
        self.was_read.store(true, Ordering::Release);
        Ok(daemonset)
    }

    async fn is_namespace_deleted(&self) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = bounded(namespaces.get_metadata(&self.namespace)).await;
        found.is_ok_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
    }

    async fn is_node_rejected(&self) -> bool {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = bounded(nodes.get_metadata(&self.node_name)).await;
        found.is_err_and(|error| matches!(error.status(), Some(FORBIDDEN | UNAUTHORIZED)))
    }
}

async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    let response = tokio::time::timeout(TIMEOUT, request).await;
    Ok(response.map_err(|_elapsed| Error::Timeout)??)
}

#[cfg(test)]
mod tests;
