//! The Namespaces' annotations and labels, with one request for each Namespace that a pod of this node is in.
//!
//! The run directory keeps the last values, which stay in use while the API server is unreachable.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::sync::mpsc;
use tracing::Instrument;
use usher_client::{
    error_chain::chain,
    run_dir::{self, namespaces::Kept},
};
use usher_core::{
    metric::value::{NamespaceResult, RunFile},
    settings::{
        annotation,
        overrides::{NamespaceValues, Values},
    },
};

use crate::{event_loop::Input, telemetry::metrics::Metrics};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Namespaces that are kept. One more clears the rest.
const CAPACITY: usize = 1024;

/// The last values of each Namespace.
#[derive(Debug)]
struct Cache {
    values: BTreeMap<String, Kept>,
    /// They are in the run directory.
    is_saved: bool,
}

/// Reads Namespaces for the event loop.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces {
    run_dir: PathBuf,
    metrics: Arc<Metrics>,
    cache: Arc<Mutex<Cache>>,
}

impl Namespaces {
    pub(crate) fn new(run_dir: PathBuf, metrics: Arc<Metrics>) -> Self {
        let kept = run_dir::load(&run_dir, run_dir::NAMESPACES).unwrap_or_else(|error| {
            tracing::warn!(error = %chain(&error), "could not read the last values of Namespaces");
            None
        });
        Self {
            run_dir,
            metrics,
            cache: Arc::new(Mutex::new(Cache {
                values: kept.unwrap_or_default(),
                is_saved: true,
            })),
        }
    }

    /// Serves until the requests are closed. Without a client, as with `--api-server off`, a Namespace has no values.
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
                let values = match client {
                    None => Some(NamespaceValues::default()),
                    Some(client) => this.get(client, &name).await,
                };
                // Fails only when the agent is ending.
                drop(inputs.send(Input::Namespace(name, values)).await);
            };
            tokio::spawn(get.instrument(span.or_current()));
        }
    }

    /// None where the request failed and no earlier values are known.
    async fn get(&self, client: Client, name: &str) -> Option<NamespaceValues> {
        let api: Api<Namespace> = Api::all(client);
        let response = tokio::time::timeout(TIMEOUT, api.get_metadata(name)).await;
        let error = match response {
            Ok(Ok(namespace)) => {
                self.metrics.namespace_requests.inc(&NamespaceResult::Ok);
                return Some(self.keep(name, own_values(namespace)));
            }
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => {
                self.metrics
                    .namespace_requests
                    .inc(&NamespaceResult::NotFound);
                return Some(NamespaceValues::default());
            }
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => {
                self.metrics
                    .namespace_requests
                    .inc(&NamespaceResult::Forbidden);
                let last = self.last_values(name);
                let used = match last {
                    Some(_) => "its last known annotations apply",
                    None => "its annotations do not apply",
                };
                tracing::warn!(
                    namespace = name,
                    "not allowed to get this Namespace: {used}"
                );
                return Some(last.unwrap_or_default());
            }
            Ok(Err(error)) => chain(&error),
            Err(_elapsed) => format!("no response within {TIMEOUT:?}"),
        };
        self.metrics
            .namespace_requests
            .inc(&NamespaceResult::Failed);
        let last = self.last_values(name);
        if last.is_some() {
            tracing::debug!(
                namespace = name,
                error,
                "could not get a Namespace; its last annotations stay in use"
            );
        } else {
            tracing::warn!(
                namespace = name,
                error,
                "could not get a Namespace, which may have opted out; its pods wait until the agent can read it"
            );
        }
        last
    }

    /// None where the Namespace was never read.
    fn last_values(&self, name: &str) -> Option<NamespaceValues> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.values.get(name).cloned().map(Into::into)
    }

    fn keep(&self, name: &str, values: Kept) -> NamespaceValues {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = cache.values.get(name) != Some(&values);
        if is_changed {
            if cache.values.len() >= CAPACITY {
                cache.values.clear();
            }
            cache.values.insert(name.to_owned(), values.clone());
        }
        if is_changed || !cache.is_saved {
            let saved = run_dir::save(&self.run_dir, run_dir::NAMESPACES, &cache.values);
            cache.is_saved = saved.is_ok();
            if let Err(error) = saved {
                self.metrics.run_dir_errors.inc(&RunFile::Namespaces);
                tracing::warn!(
                    error = %chain(&error),
                    "could not save the annotations of a Namespace; a restart without API server would not know them"
                );
            }
        }
        values.into()
    }
}

/// The annotations and labels that belong to usher.
fn own_values(namespace: PartialObjectMeta<Namespace>) -> Kept {
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
    fn values_that_could_not_be_saved_are_saved_with_the_next_response() {
        let dir = tempfile::tempdir().unwrap();
        let metrics = Arc::new(Metrics::new());
        let namespaces = Namespaces::new(dir.path().to_owned(), Arc::clone(&metrics));
        let read = Kept {
            annotations: [("usher.dev/quit".to_owned(), "false".to_owned())].into(),
            ..Kept::default()
        };
        let in_the_way = dir.path().join("namespaces.json.new");
        fs::create_dir(&in_the_way).unwrap();
        let values = namespaces.keep("shop", read.clone());
        assert_eq!(namespaces.last_values("shop"), Some(values.clone()));
        assert_eq!(namespaces::kept(dir.path()), BTreeMap::new());
        let counted = "usher_run_dir_errors_total{file=\"namespaces.json\"} 1";
        let text = metrics.text(Format::OpenMetrics);
        assert!(text.contains(counted), "{text}");
        fs::remove_dir(in_the_way).unwrap();
        namespaces.keep("shop", read);
        assert_eq!(
            namespaces::kept(dir.path()),
            [("shop".to_owned(), values)].into()
        );
    }
}
