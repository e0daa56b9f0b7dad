//! The own Node's annotations, by a watch on this one object.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::mpsc;
use usher_core::annotation;

use crate::{
    http::Readiness,
    metrics::Metrics,
    node::Input,
    run_dir::{self, Annotations},
    telemetry::chain,
};

/// Watches the Node for ever. Each change is kept in the run directory and
/// handed on.
pub(crate) async fn watch(
    client: Client,
    node_name: String,
    run_dir: PathBuf,
    inputs: mpsc::Sender<Input>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
) -> anyhow::Result<()> {
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(client);
    let only = watcher::Config::default().fields(&format!("metadata.name={node_name}"));
    let mut events = watcher(nodes, only).default_backoff().boxed();
    let mut last: Option<Annotations> = None;
    let mut failing = false;
    while let Some(event) = events.next().await {
        let node = match event {
            Ok(Event::Apply(node) | Event::InitApply(node)) => node,
            Ok(Event::Delete(_)) => {
                // A Node that is deleted and made again comes with Apply; until
                // then what was last known counts.
                tracing::warn!(
                    node = node_name,
                    "Node was deleted; its last annotations count"
                );
                continue;
            }
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                metrics.node_watch_errors.inc();
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(
                        node = node_name,
                        error = %chain(&error),
                        "lost the watch on the Node, trying again; its last annotations count"
                    );
                }
                continue;
            }
        };
        if std::mem::take(&mut failing) {
            tracing::info!(node = node_name, "watching the Node again");
        }
        let mut annotations = node.metadata.annotations.unwrap_or_default();
        annotations.retain(|key, _value| key.starts_with(annotation::PREFIX));
        readiness.node_known.store(true, Ordering::Release);
        if last.as_ref() == Some(&annotations) {
            continue;
        }
        if let Err(error) = run_dir::save(&run_dir, run_dir::NODE_ANNOTATIONS, &annotations) {
            tracing::warn!(
                error = %chain(&error),
                "could not keep the Node's annotations; a restart without API server would not know them"
            );
        }
        last = Some(annotations.clone());
        if inputs.send(Input::Node(annotations)).await.is_err() {
            return Ok(());
        }
    }
    anyhow::bail!("the watch on Node {node_name} ended")
}
