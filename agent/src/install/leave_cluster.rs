//! Has all agents of a DaemonSet leave their nodes, and waits until they have: what runs right before the DaemonSet is
//! deleted, with rights of its own (get and patch of this one DaemonSet, list of the pods in its namespace).
//!
//! The DaemonSet's template is changed so that its pods run [`crate::install::leave`], on all nodes at once; their readiness says
//! that a node is clean. It may be run again at any time, and a DaemonSet that is not there has left.

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

use self::rollout::{Lagging, Rollout};
use crate::args::leave::LeaveClusterArgs;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// Between two looks. A watch would need a right more, and this runs for seconds.
const LOOK: Duration = Duration::from_secs(1);
/// Wait before the first change is tried again, where the API server did not answer.
const AGAIN: Duration = Duration::from_secs(2);

/// What can go wrong with one request.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the API server did not answer within {REQUEST:?}")]
    Late,
    #[error("asking the API server")]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Patch(#[from] patch::Error),
}

impl Error {
    /// Whether another try is of no use: a right is missing, or the object is not what it should be.
    fn is_final(&self) -> bool {
        match self {
            Self::Late => false,
            Self::Api(kube::Error::Api(status)) => (400..429).contains(&status.code),
            Self::Api(_) => false,
            Self::Patch(_) => true,
        }
    }
}

/// Runs to its end or its timeout.
pub(crate) fn run(args: &LeaveClusterArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime
        .context("starting the runtime")?
        .block_on(leave(args))
}

async fn leave(args: &LeaveClusterArgs) -> anyhow::Result<()> {
    let deadline = Instant::now() + args.timeout;
    let name = format!("{}/{}", args.namespace, args.daemonset);
    let client = Client::try_default().await?;
    let cluster = Cluster {
        daemonsets: Api::namespaced(client.clone(), &args.namespace),
        pods: Api::namespaced(client, &args.namespace),
        args,
    };
    loop {
        match cluster.ask_to_leave().await {
            Ok(true) => break,
            Ok(false) => {
                tracing::info!(daemonset = name, "it is not there, so nobody has to leave");
                return Ok(());
            }
            Err(error) if !error.is_final() && Instant::now() + AGAIN < deadline => {
                tracing::warn!(error = %chain(&error), "could not tell the agents to leave; trying again");
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("telling the agents of {name} to leave"));
            }
        }
    }
    tracing::info!(daemonset = name, "told the agents to leave their nodes");
    let last = cluster.wait(deadline).await;
    let Some(last) = last else {
        tracing::info!(daemonset = name, "all nodes are clean");
        return Ok(());
    };
    for Lagging { node, why } in &last {
        tracing::error!(node, why, "is not clean");
    }
    bail!(
        "{} are not clean after {:?}: look at the logs of the agents there (kubectl --namespace {} logs POD), \
         or run `usher cleanup` on these nodes when the DaemonSet is gone",
        count(last.len()),
        args.timeout,
        args.namespace
    )
}

/// What this talks to.
struct Cluster<'a> {
    daemonsets: Api<DaemonSet>,
    pods: Api<Pod>,
    args: &'a LeaveClusterArgs,
}

impl Cluster<'_> {
    /// Changes the DaemonSet; whether there is one.
    async fn ask_to_leave(&self) -> Result<bool, Error> {
        let name = &self.args.daemonset;
        let Some(daemonset) = bounded(self.daemonsets.get_opt(name)).await? else {
            return Ok(false);
        };
        let Some(patch) = patch::of(&daemonset, &self.args.container)? else {
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

    /// Waits until all are clean; who is not, when the time is over.
    async fn wait(&self, deadline: Instant) -> Option<Vec<Lagging>> {
        let mut told = BTreeSet::new();
        let mut clean = 0;
        let mut last = vec![Lagging::everywhere("nothing is known of its pods yet")];
        loop {
            match self.look().await {
                Ok(Rollout::Gone) => return None,
                Ok(Rollout::Clean { .. }) => return None,
                Ok(Rollout::Waiting {
                    clean: now,
                    lagging,
                }) => {
                    if now != clean {
                        tracing::info!(clean = now, waiting = lagging.len(), "nodes");
                    }
                    clean = now;
                    for one in &lagging {
                        if told.insert(one.clone()) {
                            tracing::info!(node = one.node, why = one.why, "waiting");
                        }
                    }
                    last = lagging;
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "could not look at the pods; trying again");
                    last = vec![Lagging::everywhere(&chain(&error))];
                }
            }
            if Instant::now() + LOOK > deadline {
                return Some(last);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn look(&self) -> Result<Rollout, Error> {
        let found = bounded(self.daemonsets.get_opt(&self.args.daemonset)).await?;
        let Some(daemonset) = found else {
            return Ok(Rollout::Gone);
        };
        let selector = rollout::selector(&daemonset);
        let params = ListParams::default().labels(&selector);
        let pods = bounded(self.pods.list(&params)).await?;
        Ok(rollout::judge(
            &daemonset,
            &pods.items,
            &self.args.container,
        ))
    }
}

async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    let answer = tokio::time::timeout(REQUEST, request).await;
    Ok(answer.map_err(|_late| Error::Late)??)
}

fn count(nodes: usize) -> String {
    match nodes {
        1 => "1 node".to_owned(),
        more => format!("{more} nodes"),
    }
}
