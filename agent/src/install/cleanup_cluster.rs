//! `usher-agent cleanup-cluster`: makes every agent of a DaemonSet remove usher from its node, and waits for all of them.
//!
//! The chart runs it as a pre-delete hook with its own permissions: get and patch this one DaemonSet, list the pods in
//! its namespace. It patches the DaemonSet's template so that its pods run [`crate::install::cleanup`], on all nodes at
//! once. A ready pod means that its node is clean. The command can be repeated at any time, and succeeds if the
//! DaemonSet does not exist.

mod patch;
mod rollout;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use tokio::runtime::Builder;
use usher_client::error_chain::chain;

use self::rollout::{Lagging, Progress, Rollout};
use crate::args::cleanup::CleanupClusterArgs;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// The polling interval. A watch would need one more permission, and this runs for seconds.
const POLL: Duration = Duration::from_secs(1);
/// Pods in one response: a few MiB, which fit into the Job's memory on any cluster.
const PAGE: u32 = 250;
/// Wait before the patch is retried.
const RETRY: Duration = Duration::from_secs(2);
/// An API server that starts answers 401 or 403 to every client for a moment.
const SERVER_STARTS: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no response of the API server within {REQUEST:?}")]
    Timeout,
    #[error("requesting the API server")]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Patch(#[from] patch::Error),
}

impl Error {
    /// Whether a retry would fail too: a permission is missing, or the DaemonSet is not an agent's.
    fn is_final(&self, elapsed: Duration) -> bool {
        match self {
            Self::Timeout => false,
            Self::Api(kube::Error::Api(status)) => match status.code {
                401 | 403 => elapsed >= SERVER_STARTS,
                code => (400..429).contains(&code),
            },
            Self::Api(_) => false,
            Self::Patch(_) => true,
        }
    }
}

pub(crate) fn run(args: &CleanupClusterArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime
        .context("starting the runtime")?
        .block_on(clean(args))
}

async fn clean(args: &CleanupClusterArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    let deadline = begun + args.timeout;
    let name = format!("{}/{}", args.namespace, args.daemonset);
    let client = Client::try_default().await?;
    let cluster = Cluster {
        daemonsets: Api::namespaced(client.clone(), &args.namespace),
        pods: Api::namespaced(client, &args.namespace),
        args,
    };
    loop {
        match cluster.patch().await {
            Ok(true) => break,
            Ok(false) => {
                tracing::info!(
                    daemonset = name,
                    "found no DaemonSet, so there is nothing to remove"
                );
                return Ok(());
            }
            Err(error) if !error.is_final(begun.elapsed()) && Instant::now() + RETRY < deadline => {
                tracing::warn!(error = %chain(&error), "could not patch the DaemonSet; retrying");
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("patching the DaemonSet {name}"));
            }
        }
    }
    tracing::info!(
        daemonset = name,
        "patched the DaemonSet; its agents remove usher from their nodes"
    );
    let lagging = cluster.wait(deadline).await;
    if lagging.is_empty() {
        tracing::info!(daemonset = name, "cleaned all nodes");
        return Ok(());
    }
    for Lagging { node, why } in &lagging {
        tracing::error!(node, why, "could not clean a node");
    }
    bail!(
        "{} not clean after {}: read the logs of their agents (kubectl --namespace {} logs POD), \
         or run `usher cleanup` on these nodes when the DaemonSet is deleted",
        count(lagging.len()),
        humantime::format_duration(args.timeout),
        args.namespace
    )
}

struct Cluster<'a> {
    daemonsets: Api<DaemonSet>,
    pods: Api<Pod>,
    args: &'a CleanupClusterArgs,
}

impl Cluster<'_> {
    /// Returns whether the DaemonSet exists.
    async fn patch(&self) -> Result<bool, Error> {
        let name = &self.args.daemonset;
        let Some(daemonset) = bounded(self.daemonsets.get_opt(name)).await? else {
            return Ok(false);
        };
        let Some(patch) = patch::plan(&daemonset, &self.args.container)? else {
            return Ok(true);
        };
        let params = PatchParams::default();
        let patch = Patch::Strategic(patch);
        match bounded(self.daemonsets.patch(name, &params, &patch)).await {
            Ok(_daemonset) => Ok(true),
            Err(Error::Api(kube::Error::Api(status))) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until all nodes are clean. Returns the remaining nodes at the deadline.
    async fn wait(&self, deadline: Instant) -> Vec<Lagging> {
        let mut reported = BTreeSet::new();
        let mut clean = 0;
        loop {
            let lagging = match self.rollout().await {
                Ok(Rollout::Gone | Rollout::Clean { .. }) => return Vec::new(),
                Ok(Rollout::Waiting {
                    clean: now,
                    lagging,
                }) => {
                    if std::mem::replace(&mut clean, now) != now {
                        tracing::info!(clean, waiting = lagging.len(), "cleaned more nodes");
                    }
                    for one in &lagging {
                        if reported.insert(one.clone()) {
                            tracing::info!(node = one.node, why = one.why, "waiting for a node");
                        }
                    }
                    lagging
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "could not read the rollout; retrying");
                    vec![Lagging::everywhere(&chain(&error))]
                }
            };
            if Instant::now() + POLL > deadline {
                return lagging;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn rollout(&self) -> Result<Rollout, Error> {
        let found = bounded(self.daemonsets.get_opt(&self.args.daemonset)).await?;
        let Some(daemonset) = found else {
            return Ok(Rollout::Gone);
        };
        let selector = rollout::selector(&daemonset);
        let mut params = ListParams::default().labels(&selector).limit(PAGE);
        let mut progress = Progress::of(&daemonset, &self.args.container);
        loop {
            let pods = bounded(self.pods.list(&params)).await?;
            progress.add(&pods.items);
            let token = pods.metadata.continue_.filter(|token| !token.is_empty());
            let Some(token) = token else {
                return Ok(progress.judge());
            };
            params = params.continue_token(&token);
        }
    }
}

async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    let answer = tokio::time::timeout(REQUEST, request).await;
    Ok(answer.map_err(|_elapsed| Error::Timeout)??)
}

fn count(nodes: usize) -> String {
    match nodes {
        1 => "1 node".to_owned(),
        more => format!("{more} nodes"),
    }
}
