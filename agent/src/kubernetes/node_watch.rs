//! The own Node's annotations, by a GET and a watch of this one object.
//!
//! No list is asked for, so the role needs no right to: RBAC cannot tell one agent's Node from another's,
//! and a list would be that of all Nodes. A watch ends after [`WATCH`] at the latest, and one of which not
//! even the end comes is given up soon after; each ends with a GET, which sees what was missed.

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
use usher_client::{
    backoff::Backoff,
    error_chain::chain,
    run_dir::{self, Annotations},
};
use usher_core::{metric::value::RunFile, settings::annotation};

use crate::{event_loop::Input, serve::http::Readiness, telemetry::metrics::Metrics};

/// How long a GET may take.
const GET: Duration = Duration::from_secs(10);
/// When the server ends a watch.
const WATCH: Duration = Duration::from_secs(240);
/// How much later a watch is given up whose end has not come.
const GRACE: Duration = Duration::from_secs(15);
/// A watch that lasted for this long did not fail at once.
const LASTING: Duration = Duration::from_secs(5);
/// The watch began at a version that the server does not have any more.
const EXPIRED: u16 = 410;

/// The watch.
pub(crate) struct NodeWatch {
    pub(crate) client: Client,
    pub(crate) node_name: String,
    pub(crate) run_dir: PathBuf,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
}

/// What the Node said last.
#[derive(Debug)]
struct Last {
    annotations: Annotations,
    /// It is in the run directory.
    is_kept: bool,
}

/// Why a watch is over.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("no answer within {GET:?}")]
    Silent,
    #[error("the watch did not end in its time")]
    Dead,
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("the watch says: {0}")]
    Watch(Box<kube::core::Status>),
    /// The agent is ending.
    #[error("nobody listens")]
    Unheard,
}

impl NodeWatch {
    /// Watches the Node until the agent ends. Each change is kept in the run directory and handed on.
    pub(crate) async fn serve(self) {
        let mut last = None;
        let mut failing = false;
        let mut backoff = Backoff::default();
        loop {
            tokio::time::sleep_until(backoff.due(Instant::now()).into()).await;
            let begin = Instant::now();
            backoff.tried(begin);
            match self.follow(&mut last, &mut failing).await {
                Ok(()) => {}
                Err(Lost::Unheard) => return,
                Err(error) => {
                    self.metrics.node_watch_errors.inc();
                    self.metrics.vitals.heard(Some(&chain(&error)));
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(
                            node = self.node_name,
                            error = %chain(&error),
                            "lost the watch on the Node, trying again; its last annotations count"
                        );
                    }
                }
            }
            if begin.elapsed() >= LASTING {
                backoff = Backoff::default();
            }
        }
    }

    /// Looks at the Node, then watches it until the watch ends.
    async fn follow(&self, last: &mut Option<Last>, failing: &mut bool) -> Result<(), Lost> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let get = tokio::time::timeout(GET, nodes.get_metadata(&self.node_name));
        let node = get.await.map_err(|_elapsed| Lost::Silent)??;
        if std::mem::take(failing) {
            tracing::info!(node = self.node_name, "watching the Node again");
        }
        let version = node.metadata.resource_version.clone().unwrap_or_default();
        self.take(node, last).await?;
        let seconds = u32::try_from(WATCH.as_secs()).unwrap_or(u32::MAX);
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.node_name))
            .timeout(seconds);
        let watch = tokio::time::timeout(GET, nodes.watch_metadata(&params, &version));
        let events = watch.await.map_err(|_elapsed| Lost::Silent)??;
        let mut events = Box::pin(events);
        let end = Instant::now() + WATCH + GRACE;
        loop {
            let event = timeout_at(end.into(), events.next()).await;
            match event.map_err(|_elapsed| Lost::Dead)?.transpose()? {
                Some(WatchEvent::Added(node) | WatchEvent::Modified(node)) => {
                    self.take(node, last).await?;
                }
                Some(WatchEvent::Deleted(_)) => {
                    // A Node that is deleted and made again comes with Added;
                    // until then what was last known counts.
                    tracing::warn!(
                        node = self.node_name,
                        "Node was deleted; its last annotations count"
                    );
                }
                Some(WatchEvent::Bookmark(_)) => {}
                Some(WatchEvent::Error(status)) if status.code == EXPIRED => {
                    tracing::debug!("the watch on the Node is too old, looking at it anew");
                    return Ok(());
                }
                Some(WatchEvent::Error(status)) => return Err(Lost::Watch(status)),
                None => return Ok(()),
            }
        }
    }

    async fn take(
        &self,
        node: PartialObjectMeta<Node>,
        last: &mut Option<Last>,
    ) -> Result<(), Lost> {
        self.metrics.vitals.heard(None);
        let mut annotations = node.metadata.annotations.unwrap_or_default();
        annotations.retain(|key, _value| key.starts_with(annotation::PREFIX));
        self.readiness.node_known.store(true, Ordering::Release);
        self.readiness.news.notify_one();
        let is_news = last
            .as_ref()
            .is_none_or(|last| last.annotations != annotations);
        // The Node changes every few minutes at least: its status has a time.
        if !is_news && last.as_ref().is_some_and(|last| last.is_kept) {
            return Ok(());
        }
        let kept = run_dir::save(&self.run_dir, run_dir::NODE_ANNOTATIONS, &annotations);
        let is_kept = kept.is_ok();
        if let Err(error) = kept {
            self.metrics.run_dir_errors.inc(&RunFile::NodeAnnotations);
            tracing::warn!(
                error = %chain(&error),
                "could not keep the Node's annotations; a restart without API server would not know them"
            );
        }
        *last = Some(Last {
            annotations: annotations.clone(),
            is_kept,
        });
        if !is_news {
            return Ok(());
        }
        let sent = self.inputs.send(Input::Node(annotations)).await;
        sent.map_err(|_closed| Lost::Unheard)
    }
}
