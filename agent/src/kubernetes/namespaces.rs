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
use tokio::sync::mpsc;
use usher_client::{
    error_chain::chain,
    run_dir::{self, namespaces::Kept},
};
use usher_core::{
    metric::value::{Asked, RunFile},
    settings::{
        annotation,
        overrides::{NamespaceValues, Values},
    },
};

use crate::{event_loop::Input, telemetry::metrics::Metrics};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Namespaces that are kept; beyond it all but the newest are forgotten.
const KEPT: usize = 1024;

/// What Namespaces said last.
#[derive(Debug)]
struct Known {
    said: BTreeMap<String, Kept>,
    /// It is in the run directory.
    is_kept: bool,
}

/// Answers questions about Namespaces.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces {
    run_dir: PathBuf,
    metrics: Arc<Metrics>,
    known: Arc<Mutex<Known>>,
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
            known: Arc::new(Mutex::new(Known {
                said: kept.unwrap_or_default(),
                is_kept: true,
            })),
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
                self.metrics.namespace_requests.inc(&Asked::Ok);
                return Some(self.keep(name, said(namespace)));
            }
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => {
                self.metrics.namespace_requests.inc(&Asked::NotFound);
                return Some(NamespaceValues::default());
            }
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => {
                self.metrics.namespace_requests.inc(&Asked::Forbidden);
                let known = self.known(name);
                let counts = match known {
                    Some(_) => "what it said of usher last counts",
                    None => "what it says of usher does not count",
                };
                tracing::warn!(
                    namespace = name,
                    "not allowed to get this Namespace: {counts}"
                );
                return Some(known.unwrap_or_default());
            }
            Ok(Err(error)) => chain(&error),
            Err(_elapsed) => format!("no answer within {TIMEOUT:?}"),
        };
        self.metrics.namespace_requests.inc(&Asked::Failed);
        let known = self.known(name);
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
        known
    }

    /// What a Namespace said last; None where it was never read.
    fn known(&self, name: &str) -> Option<NamespaceValues> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.said.get(name).cloned().map(Into::into)
    }

    fn keep(&self, name: &str, said: Kept) -> NamespaceValues {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = known.said.get(name) != Some(&said);
        if is_news {
            if known.said.len() >= KEPT {
                known.said.clear();
            }
            known.said.insert(name.to_owned(), said.clone());
        }
        if is_news || !known.is_kept {
            let kept = run_dir::save(&self.run_dir, run_dir::NAMESPACES, &known.said);
            known.is_kept = kept.is_ok();
            if let Err(error) = kept {
                self.metrics.run_dir_errors.inc(&RunFile::Namespaces);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use usher_client::run_dir::namespaces;

    use super::*;
    use crate::telemetry::metrics::Format;

    #[test]
    fn what_could_not_be_kept_is_kept_with_the_next_answer() {
        let dir = tempfile::tempdir().unwrap();
        let metrics = Arc::new(Metrics::new());
        let namespaces = Namespaces::new(dir.path().to_owned(), Arc::clone(&metrics));
        let said = Kept {
            annotations: [("usher.dev/quit".to_owned(), "false".to_owned())].into(),
            ..Kept::default()
        };
        let in_the_way = dir.path().join("namespaces.json.new");
        fs::create_dir(&in_the_way).unwrap();
        let values = namespaces.keep("shop", said.clone());
        assert_eq!(namespaces.known("shop"), Some(values.clone()));
        assert_eq!(namespaces::kept(dir.path()), BTreeMap::new());
        let counted = "usher_run_dir_errors_total{file=\"namespaces.json\"} 1";
        let text = metrics.text(Format::OpenMetrics);
        assert!(text.contains(counted), "{text}");
        fs::remove_dir(in_the_way).unwrap();
        namespaces.keep("shop", said);
        assert_eq!(
            namespaces::kept(dir.path()),
            [("shop".to_owned(), values)].into()
        );
    }
}
