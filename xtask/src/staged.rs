//! A run of tests on a real cluster with a real Istio, which leaves what pictures of the documentation are drawn from.
//!
//! What it left is kept, so that drawing can be tried again without another run.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use usher_cluster::{Cluster, Config, programs::Sidecars};

use crate::{
    image, supervisor,
    workspace::{cargo, run as run_command},
};

/// Tells the tests which cluster they are on.
const CLUSTER_VARIABLE: &str = "USHER_TEST_CLUSTER";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Draw what the last run left, again
    #[arg(long, conflicts_with = "cluster")]
    again: bool,
    /// Use this cluster, which is up and has Istio and the agent's image
    #[arg(long)]
    cluster: Option<String>,
}

/// Which run.
pub(crate) struct Stage {
    /// The name of its own cluster, which is gone afterwards.
    pub(crate) cluster: &'static str,
    /// Which of the cluster's tests.
    pub(crate) tests: &'static str,
    /// Tells the tests where to leave it.
    pub(crate) variable: &'static str,
}

/// Runs it, unless it is to be drawn again, and draws.
pub(crate) fn run(
    args: &Args,
    stage: &Stage,
    left: &Path,
    draw: impl FnOnce(&Path) -> Result<()>,
) -> Result<ExitCode> {
    let done = match &args.cluster {
        _ if args.again => draw(left),
        Some(cluster) => tested(stage, cluster, left).and_then(|()| draw(left)),
        None => {
            return supervisor::run(&[stage.cluster], false, || {
                prepare(stage.cluster)?;
                tested(stage, stage.cluster, left)?;
                draw(left)
            });
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// A cluster made anew: an earlier one may be in any state.
fn prepare(name: &str) -> Result<()> {
    let archive = image::agent()?;
    let cluster = Cluster::with(Config {
        sidecars: Sidecars::Istio,
        ..Config::from_env(name)?
    })?;
    cluster.down()?;
    cluster.up()?;
    cluster.import_image(&archive)
}

fn tested(stage: &Stage, cluster: &str, left: &Path) -> Result<()> {
    let folder = left.parent().context("what is left is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let test = ["test", "--package", "usher-tests", "--test", "cluster"];
    let mut test = cargo([&test[..], &["--", stage.tests]].concat());
    run_command(
        test.env(CLUSTER_VARIABLE, cluster)
            .env(stage.variable, left),
    )
}
