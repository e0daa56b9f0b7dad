//! What Namespaces say of usher, one request for each that a pod of this node
//! is in.
//!
//! The last answers are kept in the run directory and count while the API
//! server is away.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, core::PartialObjectMeta};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use usher_core::{
    annotation,
    tuning::{NamespaceValues, Values},
};

use crate::{metrics::Metrics, node::Input, run_dir, telemetry::chain};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Namespaces that are kept; beyond it all but the newest are forgotten.
const KEPT: usize = 1024;

/// As it is kept in the run directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    #[serde(default)]
    annotations: Values,
    #[serde(default)]
    labels: Values,
}

/// Answers questions about Namespaces.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces {
    run_dir: PathBuf,
    metrics: Arc<Metrics>,
    kept: Arc<Mutex<BTreeMap<String, Kept>>>,
}

impl Namespaces {
    pub(crate) fn new(run_dir: PathBuf, metrics: Arc<Metrics>) -> Self {
        let kept = run_dir::load(&run_dir, run_dir::NAMESPACES).unwrap_or_else(|error| {
            tracing::warn!(error = %chain(&error), "could not read what Namespaces said last");
            None
        });
        Self {
            run_dir,
            metrics,
            kept: Arc::new(Mutex::new(kept.unwrap_or_default())),
        }
    }

    /// Answers as long as there are questions. Without a client, as with
    /// `--api-server off`, Namespaces say nothing.
    pub(crate) async fn serve(
        self,
        client: Option<Client>,
        mut wanted: mpsc::Receiver<String>,
        inputs: mpsc::Sender<Input>,
    ) {
        while let Some(name) = wanted.recv().await {
            let (this, client, inputs) = (self.clone(), client.clone(), inputs.clone());
            tokio::spawn(async move {
                let values = match client {
                    None => Some(NamespaceValues::default()),
                    Some(client) => this.ask(client, &name).await,
                };
                // Nobody listens only when the agent is ending.
                drop(inputs.send(Input::Namespace(name, values)).await);
            });
        }
    }

    async fn ask(&self, client: Client, name: &str) -> Option<NamespaceValues> {
        let api: Api<Namespace> = Api::all(client);
        let answer = tokio::time::timeout(TIMEOUT, api.get_metadata(name)).await;
        let error = match answer {
            Ok(Ok(namespace)) => {
                self.metrics.namespace_request("ok");
                return Some(self.keep(name, said(namespace)));
            }
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => {
                self.metrics.namespace_request("not-found");
                return Some(NamespaceValues::default());
            }
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => {
                self.metrics.namespace_request("forbidden");
                tracing::warn!(
                    namespace = name,
                    "not allowed to get this Namespace: what it says of usher does not count"
                );
                return Some(NamespaceValues::default());
            }
            Ok(Err(error)) => chain(&error),
            Err(_elapsed) => format!("no answer within {TIMEOUT:?}"),
        };
        self.metrics.namespace_request("failed");
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.get(name).cloned();
        if known.is_some() {
            tracing::debug!(
                namespace = name,
                error,
                "could not get a Namespace; what it said last counts"
            );
        } else {
            tracing::warn!(
                namespace = name,
                error,
                "could not get a Namespace, which may have opted out; its pods wait until it can be had"
            );
        }
        known.map(Into::into)
    }

    fn keep(&self, name: &str, said: Kept) -> NamespaceValues {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.get(name) != Some(&said) {
            if kept.len() >= KEPT {
                kept.clear();
            }
            kept.insert(name.to_owned(), said.clone());
            if let Err(error) = run_dir::save(&self.run_dir, run_dir::NAMESPACES, &*kept) {
                tracing::warn!(
                    error = %chain(&error),
                    "could not keep what a Namespace says; a restart without API server would not know it"
                );
            }
        }
        said.into()
    }
}

/// What of a Namespace concerns usher.
fn said(namespace: PartialObjectMeta<Namespace>) -> Kept {
    let ours = |values: Option<Values>| {
        let mut values = values.unwrap_or_default();
        values.retain(|key, _value| key.starts_with(annotation::PREFIX));
        values
    };
    Kept {
        annotations: ours(namespace.metadata.annotations),
        labels: ours(namespace.metadata.labels),
    }
}

impl From<Kept> for NamespaceValues {
    fn from(kept: Kept) -> Self {
        Self {
            annotations: kept.annotations,
            labels: kept.labels,
        }
    }
}
