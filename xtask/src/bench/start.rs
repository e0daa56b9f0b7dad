//! `cargo xtask bench start`: on a cluster with Istio, of its own and gone afterwards, or one that is there.

use std::process::ExitCode;

use anyhow::Result;
use usher_cluster::{Cluster, Config, Layout, programs::Sidecars};

use crate::{
    image, supervisor,
    workspace::{cargo, root, run as run_command},
};

const CLUSTER: &str = "bench";
/// Tells the cluster's name to the benchmark.
const CLUSTER_VARIABLE: &str = "USHER_TEST_CLUSTER";
const MANIFEST: &str = "deploy/usher.yaml";
const AGENT_NAMESPACE: &str = "usher-system";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure less
    #[arg(long)]
    quick: bool,
    /// Exit with 1 when a budget is not kept
    #[arg(long)]
    enforce: bool,
    /// Keep the cluster
    #[arg(long, conflicts_with = "cluster")]
    keep: bool,
    /// Use this cluster, which is up, has Istio, and an agent that enforces
    #[arg(long)]
    cluster: Option<String>,
    /// Only what is done without usher
    #[arg(long)]
    alternatives: bool,
    /// What the node sees of cgroups: hybrid or v2 [default: what the machine has]
    #[arg(long, conflicts_with = "cluster")]
    cgroups: Option<Layout>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    match &args.cluster {
        Some(name) => measure(args, name).map(|()| ExitCode::SUCCESS),
        None => supervisor::run(&[CLUSTER], args.keep, || {
            prepare(args.cgroups)?;
            measure(args, CLUSTER)
        }),
    }
}

/// The cluster with usher on it, made anew: an earlier one may be in any state.
fn prepare(cgroups: Option<Layout>) -> Result<()> {
    let archive = image::agent()?;
    let config = Config::from_env(CLUSTER)?;
    let cluster = Cluster::with(Config {
        cgroups: cgroups.or(config.cgroups),
        sidecars: Sidecars::Istio,
        ..config
    })?;
    cluster.down()?;
    cluster.up()?;
    cluster.import_image(&archive)?;
    let manifest = root().join(MANIFEST).display().to_string();
    cluster.kubectl(&["apply", "-f", &manifest])?;
    let mode = ["usher.dev/mode=enforce", "--overwrite"];
    let node = ["annotate", "node", cluster.node_name()];
    cluster.kubectl(&[&node[..], &mode].concat())?;
    let rollout = ["rollout", "status", "daemonset/usher-agent"];
    let agent = ["-n", AGENT_NAMESPACE, "--timeout=120s"];
    cluster.kubectl(&[&agent[..], &rollout].concat()).map(drop)
}

fn measure(args: &Args, cluster: &str) -> Result<()> {
    let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", "start"]);
    // Nothing that is measured is compiled by this; everything else is built already.
    bench.args(["--profile", "dev", "--"]);
    bench.args(args.quick.then_some("--quick"));
    bench.args(args.enforce.then_some("--enforce"));
    bench.args(args.alternatives.then_some("--alternatives"));
    run_command(bench.env(CLUSTER_VARIABLE, cluster))
}
