//! The annotations and labels of the agent's own Node, from a GET and a watch of this one object.
//!
//! The agent lists no Nodes, so its role does not need the verb `list`, which RBAC cannot limit to one Node. The API
//! server ends a watch after the requested time ([`watch_length`]); if it does not, the agent abandons the watch
//! [`GRACE`] later, and one without any message after [`SILENT`]. Each watch is followed by a GET, which returns the
//! changes in between.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{WatchEvent, WatchParams},
    core::PartialObjectMeta,
};
use tokio::{sync::mpsc, time::timeout_at};
use usher_client::{backoff::Backoff, error_chain::chain, jitter, run_dir};
use usher_core::{
    metric::value::RunFile,
    settings::{annotation, mode::NodeValues},
};

use crate::{event_loop::Input, serve::probes::Readiness, telemetry::reporter::Reporter};

/// How long a GET may take.
const GET: Duration = Duration::from_secs(10);
/// The shortest watch; the longest one is twice as long.
const SHORTEST_WATCH: Duration = Duration::from_secs(240);
const GRACE: Duration = Duration::from_secs(15);
/// After this time without a message the connection may be dead, which TCP does not report: API servers send a bookmark
/// about once a minute
/// ([bookmarkFrequency](https://github.com/kubernetes/kubernetes/blob/v1.33.0/staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go)).
const SILENT: Duration = Duration::from_secs(180);
/// A watch that lasted this long resets the backoff.
const LASTING: Duration = Duration::from_secs(5);
/// Status code: the API server no longer has the watch's resource version.
const EXPIRED: u16 = 410;

pub(crate) struct NodeWatch {
    pub(crate) client: Client,
    pub(crate) node_name: String,
    pub(crate) run_dir: PathBuf,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) reporter: Reporter,
    pub(crate) readiness: Arc<Readiness>,
}

/// The Node's values as last received.
#[derive(Debug)]
struct Last {
    values: NodeValues,
    /// Whether the values are in the run directory.
    is_saved: bool,
}

/// Why a watch ended.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("no response within {GET:?}")]
    Timeout,
    #[error("the watch did not end within {0:?}")]
    Stalled(Duration),
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("the watch failed: {0}")]
    Watch(Box<kube::core::Status>),
    #[error("the agent is ending")]
    Ending,
}

impl NodeWatch {
    /// Watches the Node until the agent ends. Saves each change in the run directory, and sends it to the event loop.
    pub(crate) async fn serve(self) {
        let mut last = None;
        let mut failing = false;
        let mut backoff = Backoff::with_jitter();
        loop {
            tokio::time::sleep_until(backoff.due(Instant::now()).into()).await;
            let start = Instant::now();
            backoff.tried(start);
            match self.follow(&mut last, &mut failing).await {
                Ok(()) => {}
                Err(Lost::Ending) => return,
                Err(error) => {
                    self.reporter.metrics.node_watch_errors.inc();
                    self.reporter.health.set_node_watch(Some(&chain(&error)));
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(
                            node = self.node_name,
                            error = %chain(&error),
                            "lost the watch on the Node, retrying; its last annotations stay in use"
                        );
                    }
                }
            }
            if start.elapsed() >= LASTING {
                backoff = Backoff::with_jitter();
            }
        }
    }

    /// Gets the Node, then watches it until the watch ends.
    async fn follow(&self, last: &mut Option<Last>, failing: &mut bool) -> Result<(), Lost> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let get = tokio::time::timeout(GET, nodes.get_metadata(&self.node_name));
        let node = get.await.map_err(|_elapsed| Lost::Timeout)??;
        let version = node.metadata.resource_version.clone().unwrap_or_default();
        self.receive(node, last).await?;
        let seconds = watch_length();
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.node_name))
            .timeout(seconds);
        let watch = tokio::time::timeout(GET, nodes.watch_metadata(&params, &version));
        let events = watch.await.map_err(|_elapsed| Lost::Timeout)??;
        self.reporter.health.set_node_watch(None);
        if std::mem::take(failing) {
            tracing::info!(node = self.node_name, "watching the Node again");
        }
        let mut events = Box::pin(events);
        let longest = Duration::from_secs(seconds.into()) + GRACE;
        let end = Instant::now() + longest;
        loop {
            let due = end.min(Instant::now() + SILENT);
            let event = match timeout_at(due.into(), events.next()).await {
                Ok(event) => event.transpose()?,
                Err(_elapsed) if due < end => {
                    tracing::debug!("no message of the watch on the Node, getting it again");
                    return Ok(());
                }
                Err(_elapsed) => return Err(Lost::Stalled(longest)),
            };
            match event {
                Some(WatchEvent::Added(node) | WatchEvent::Modified(node)) => {
                    self.reporter.health.set_node_watch(None);
                    self.receive(node, last).await?;
                }
                Some(WatchEvent::Deleted(_)) => {
                    // An Added event follows if the Node is created again.
                    tracing::warn!(
                        node = self.node_name,
                        "Node was deleted; its last annotations stay in use"
                    );
                }
                Some(WatchEvent::Bookmark(_)) => {}
                Some(WatchEvent::Error(status)) if status.code == EXPIRED => {
                    tracing::debug!("the watch on the Node expired, getting it again");
                    return Ok(());
                }
                Some(WatchEvent::Error(status)) => return Err(Lost::Watch(status)),
                None => return Ok(()),
            }
        }
    }

    async fn receive(
        &self,
        node: PartialObjectMeta<Node>,
        last: &mut Option<Last>,
    ) -> Result<(), Lost> {
        let [annotations, labels] =
            [node.metadata.annotations, node.metadata.labels].map(|values| {
                let mut values = values.unwrap_or_default();
                values.retain(|key, _value| key.starts_with(annotation::PREFIX));
                values
            });
        let values = NodeValues {
            annotations,
            labels,
        };
        self.readiness.node_known.store(true, Ordering::Release);
        self.readiness.changed.notify_one();
        let is_changed = last.as_ref().is_none_or(|last| last.values != values);
        // The Node changes every few minutes, because its status contains a timestamp. usher's values rarely change.
        if !is_changed && last.as_ref().is_some_and(|last| last.is_saved) {
            return Ok(());
        }
        *last = Some(Last {
            values: values.clone(),
            is_saved: self.save(&values),
        });
        if !is_changed {
            return Ok(());
        }
        let sent = self.inputs.send(Input::Node(values)).await;
        sent.map_err(|_closed| Lost::Ending)
    }

    /// Returns whether the run directory has the values now.
    fn save(&self, values: &NodeValues) -> bool {
        let files = [
            (run_dir::NODE_LABELS, &values.labels, RunFile::NodeLabels),
            (
                run_dir::NODE_ANNOTATIONS,
                &values.annotations,
                RunFile::NodeAnnotations,
            ),
        ];
        let mut is_saved = true;
        for (name, values, file) in files {
            if let Err(error) = run_dir::save(&self.run_dir, name, values) {
                is_saved = false;
                self.reporter.metrics.run_dir_errors.inc(&file);
                tracing::warn!(
                    error = %chain(&error),
                    "could not save the Node's annotations and labels; a restart without API server would not know them"
                );
            }
        }
        is_saved
    }
}

/// A random time in seconds, because the API server would receive the watches of all nodes at once otherwise.
fn watch_length() -> u32 {
    let length = SHORTEST_WATCH + jitter::up_to(SHORTEST_WATCH);
    u32::try_from(length.as_secs()).unwrap_or(u32::MAX)
}
