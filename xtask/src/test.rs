//! `cargo xtask test`: lint, unit tests, node tests with synthetic pods, then the agent's image on real clusters.
//!
//! The first failure ends it. What a machine cannot do is skipped, loudly; with `CI=true` that is a failure.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand, TargetKind};
use nix::unistd::Uid;
use usher_cluster::{
    Cluster, Config, Layout,
    programs::{Containerd, Programs, Sidecars},
};

use crate::{
    image, lint,
    step::Steps,
    supervisor,
    workspace::{cargo, root, run as run_command},
};

/// The cluster's name, and the variable that tells it to the tests.
const CLUSTER: &str = "test";
const CLUSTER_VARIABLE: &str = "USHER_TEST_CLUSTER";
/// The test programs that need a cluster.
const CLUSTER_TARGET: &str = "cluster";
/// The tests of the cluster itself. They bring up their own, so plain `cargo test` leaves them out.
const SMOKE_TARGET: &str = "smoke";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave out format, clippy, policies and rules
    #[arg(long)]
    without_lint: bool,
    /// Leave out the tests on real clusters
    #[arg(long)]
    without_cluster: bool,
    /// Only a cluster with this cgroup layout: hybrid or v2
    #[arg(long, conflicts_with = "without_cluster")]
    layout: Option<Layout>,
}

pub(crate) fn run(args: &Args, skips_are_errors: bool) -> Result<ExitCode> {
    let clusters = !args.without_cluster && Uid::effective().is_root();
    let names: &[&str] = if clusters { &[CLUSTER] } else { &[] };
    supervisor::run(names, false, || everything(args, skips_are_errors))
}

/// Whether this is a pipeline, by what pipelines set.
pub(crate) fn skips_are_errors() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

fn everything(args: &Args, skips_are_errors: bool) -> Result<()> {
    let clusters = !args.without_cluster && Uid::effective().is_root();
    // The first time, Kubernetes itself has to be built. The tests of the cluster have both kinds of containerd.
    let programs =
        clusters.then(|| thread::spawn(|| Programs::ready(Sidecars::All, Containerd::Two)));

    let mut steps = Steps::fail_fast("test");
    if !args.without_lint {
        lint::steps(&mut steps);
    }
    steps.run("build what tests start", || {
        run_command(&mut cargo(["build", "--workspace", "--bins"]))
    });
    // Before the tests, some of which look at the clock.
    if let Some(programs) = programs {
        steps.run("programs of the cluster", || match programs.join() {
            Ok(ready) => ready.map(drop),
            Err(_) => bail!("the thread that builds them panicked"),
        });
    }
    steps.run("unit and node tests", || {
        let targets = targets_without_cluster(&metadata()?);
        let named = targets.iter().flat_map(|name| ["--test", name]);
        run_command(test(skips_are_errors).args(["--lib", "--bins"]).args(named))
    });
    steps.run("examples in the documentation", || {
        run_command(test(skips_are_errors).arg("--doc"))
    });
    if clusters {
        on_clusters(&mut steps, args.layout, skips_are_errors);
    } else if !args.without_cluster {
        steps.skip("cluster tests", "they need root", skips_are_errors);
    }
    steps.finish()
}

fn on_clusters(steps: &mut Steps, wanted: Option<Layout>, skips_are_errors: bool) {
    let mut archive = PathBuf::new();
    steps.run("image of the agent", || {
        archive = image::agent()?;
        Ok(())
    });
    for layout in wanted.map_or(vec![Layout::Hybrid, Layout::V2], |layout| vec![layout]) {
        let title = format!("cluster tests, cgroup layout {layout}");
        if layout == Layout::Hybrid && wanted.is_none() && !machine_has_cgroup_v1() {
            // Never an error: no pipeline on such a machine could be green.
            steps.skip(&title, "this machine has cgroup v2 only", false);
            continue;
        }
        steps.run(&title, || on_cluster(layout, &archive, skips_are_errors));
    }
    if wanted.is_none() && machine_has_cgroup_v1() {
        steps.run("the cluster itself", || {
            let args = [
                "--test",
                SMOKE_TARGET,
                "--",
                "--ignored",
                "--test-threads=1",
            ];
            run_command(test(skips_are_errors).args(args))
        });
    }
}

fn on_cluster(layout: Layout, archive: &Path, skips_are_errors: bool) -> Result<()> {
    // What an earlier run may have left.
    supervisor::end(&[CLUSTER])?;
    // Both kinds of containerd in two runs.
    let containerd = match layout {
        Layout::Hybrid => Containerd::Debian,
        Layout::V2 => Containerd::Two,
    };
    let cluster = Cluster::with(Config {
        cgroups: Some(layout),
        containerd: Some(containerd),
        sidecars: Sidecars::All,
        ..Config::from_env(CLUSTER)?
    })?;
    let tested = cluster.up().and_then(|()| {
        cluster.import_image(archive)?;
        run_command(
            test(skips_are_errors)
                .args(["--test", CLUSTER_TARGET])
                .env(CLUSTER_VARIABLE, CLUSTER),
        )
    });
    tested.and(supervisor::end(&[CLUSTER]))
}

/// One selection of packages for all: another one would have other features, and build everything again.
fn test(skips_are_errors: bool) -> Command {
    let mut test = cargo(["test", "--workspace"]);
    if skips_are_errors {
        test.env("CI", "true");
    }
    test
}

fn metadata() -> Result<Metadata> {
    MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .exec()
        .context("ask cargo for the test programs")
}

/// The names of all test programs that need no cluster.
fn targets_without_cluster(metadata: &Metadata) -> Vec<String> {
    let targets = metadata
        .packages
        .iter()
        .flat_map(|package| &package.targets);
    let mut names: Vec<String> = targets
        .filter(|target| target.kind.contains(&TargetKind::Test))
        .map(|target| target.name.clone())
        .filter(|name| name != CLUSTER_TARGET)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn machine_has_cgroup_v1() -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.contains(" - cgroup ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_tests_wait_for_their_cluster() {
        let names = targets_without_cluster(&metadata().unwrap());
        assert!(names.contains(&"synthetic".to_owned()), "{names:?}");
        assert!(!names.contains(&CLUSTER_TARGET.to_owned()), "{names:?}");
    }
}
