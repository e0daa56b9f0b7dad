//! The benchmarks that need a cluster: one with Istio, of their own and gone afterwards, or one that is there.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use usher_cluster::{Config, Layout, programs::Sidecars};

use super::{Manner, recorded, reported};
use crate::{
    cluster,
    step::Steps,
    supervisor,
    workspace::{cargo, run as run_command},
};

const CLUSTER: &str = "bench";

#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    place: Place,
    /// Only what is done without usher
    #[arg(long)]
    alternatives: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct JobArgs {
    #[command(flatten)]
    place: Place,
    /// So many real pods on the node at the end, 0 for none [default: 110, or 30 with --quick]
    #[arg(long)]
    real_pods: Option<u16>,
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Keep the cluster
    #[arg(long, conflicts_with = "cluster")]
    keep: bool,
    /// Use this cluster, which is up, has Istio, and an agent that enforces
    #[arg(long)]
    cluster: Option<String>,
    /// What the node sees of cgroups: hybrid or v2 [default: what the machine has]
    #[arg(long, conflicts_with = "cluster")]
    cgroups: Option<Layout>,
}

pub(super) fn start(args: &StartArgs, manner: Manner) -> Result<ExitCode> {
    let more = args.alternatives.then(|| "--alternatives".to_owned());
    one(&args.place, "start", manner, more.as_slice())
}

pub(super) fn jobs(args: &JobArgs, manner: Manner) -> Result<ExitCode> {
    let more = args
        .real_pods
        .map(|pods| vec!["--real-pods".to_owned(), pods.to_string()]);
    one(&args.place, "cluster", manner, &more.unwrap_or_default())
}

/// Both of them on one cluster.
pub(super) fn all(steps: &mut Steps, manner: Manner) {
    let mut is_there = false;
    steps.run("a cluster with Istio and usher", || {
        prepare(None)?;
        is_there = true;
        Ok(())
    });
    for name in ["start", "cluster"] {
        steps.run(name, || {
            ensure!(is_there, "there is no cluster");
            measure(CLUSTER, name, manner, &[])
        });
    }
}

/// Work at whose end there is no cluster any more.
pub(super) fn supervised(work: impl FnOnce() -> Result<()>) -> Result<ExitCode> {
    supervisor::run(&[CLUSTER], false, work)
}

fn one(place: &Place, name: &str, manner: Manner, more: &[String]) -> Result<ExitCode> {
    let work = |cluster: &str| {
        let mut steps = Steps::keep_going("bench");
        steps.run(name, || measure(cluster, name, manner, more));
        reported(steps).map(drop)
    };
    match &place.cluster {
        Some(cluster) => work(cluster).map(|()| ExitCode::SUCCESS),
        None => supervisor::run(&[CLUSTER], place.keep, || {
            prepare(place.cgroups)?;
            work(CLUSTER)
        }),
    }
}

/// A new cluster with an agent that enforces.
fn prepare(cgroups: Option<Layout>) -> Result<()> {
    let config = Config::from_env(CLUSTER)?;
    let cluster = cluster::recreate(Config {
        cgroups: cgroups.or(config.cgroups),
        sidecars: Sidecars::Istio,
        ..config
    })?;
    let mode = ["usher.dev/mode=enforce", "--overwrite"];
    let node = ["annotate", "node", cluster.node_name()];
    cluster.kubectl(&[&node[..], &mode].concat())?;
    cluster::install_agent(&cluster)
}

fn measure(cluster_name: &str, name: &str, manner: Manner, more: &[String]) -> Result<()> {
    let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", name]);
    // Nothing that is measured is compiled by this; everything else is built already.
    bench.args(["--profile", "dev", "--"]);
    run_command(recorded(&mut bench, name, manner, more).env(cluster::VARIABLE, cluster_name))
}
