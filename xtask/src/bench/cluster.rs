//! The benchmarks on a cluster with Istio: a new one, which is removed afterwards, or an existing one.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use usher_cluster::{Config, Layout, programs::Sidecars};

use super::{Options, recorded, reported};
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
    /// Only the alternatives to usher
    #[arg(long)]
    alternatives: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct JobArgs {
    #[command(flatten)]
    place: Place,
    /// Number of real pods on the node at the end [default: 110, or 30 with --quick]
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
    /// Cgroup layout of the node: hybrid or v2 [default: the machine's]
    #[arg(long, conflicts_with = "cluster")]
    cgroups: Option<Layout>,
}

pub(super) fn start(args: &StartArgs, options: Options) -> Result<ExitCode> {
    let more = args.alternatives.then(|| "--alternatives".to_owned());
    one(&args.place, "start", options, more.as_slice())
}

pub(super) fn jobs(args: &JobArgs, options: Options) -> Result<ExitCode> {
    let more = args
        .real_pods
        .map(|pods| vec!["--real-pods".to_owned(), pods.to_string()]);
    one(&args.place, "cluster", options, &more.unwrap_or_default())
}

/// Both benchmarks on one cluster.
pub(super) fn all(steps: &mut Steps, options: Options) {
    let mut is_ready = false;
    steps.run("a cluster with Istio and usher", || {
        prepare(None)?;
        is_ready = true;
        Ok(())
    });
    for name in ["start", "cluster"] {
        steps.run(name, || {
            ensure!(is_ready, "no cluster");
            measure(CLUSTER, name, options, &[])
        });
    }
}

/// Does work and removes the cluster at its end.
pub(super) fn supervised(work: impl FnOnce() -> Result<()>) -> Result<ExitCode> {
    supervisor::run(&[CLUSTER], false, work)
}

fn one(place: &Place, name: &str, options: Options, more: &[String]) -> Result<ExitCode> {
    let work = |cluster: &str| {
        let mut steps = Steps::keep_going("bench");
        steps.run(name, || measure(cluster, name, options, more));
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

fn measure(cluster_name: &str, name: &str, options: Options, more: &[String]) -> Result<()> {
    let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", name]);
    // The image has the measured programs, so the dev profile, which is built already, is enough.
    bench.args(["--profile", "dev", "--"]);
    run_command(recorded(&mut bench, name, options, more).env(cluster::VARIABLE, cluster_name))
}
