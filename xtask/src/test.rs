//! `cargo xtask test`: lint, unit tests, node tests with synthetic pods, a soak, then the agent's image on real clusters.
//!
//! The first failure ends it. What a machine cannot do is skipped, loudly; with `CI=true` that is a failure.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand, TargetKind};
use nix::unistd::Uid;
use usher_cluster::{
    Cluster, Config, Layout,
    programs::{Containerd, Programs, Sidecars, ensure_packages},
};

use crate::{
    ahead, fuzz, lint, soak,
    step::Steps,
    supervisor,
    workspace::{cargo, root, run as run_command, run_within},
};

/// The cluster's name, and the variable that tells it to the tests.
const CLUSTER: &str = "test";
const CLUSTER_VARIABLE: &str = "USHER_TEST_CLUSTER";
/// The test programs that need a cluster: of one node, and of two.
const CLUSTER_TARGET: &str = "cluster";
const NODES_TARGET: &str = "nodes";
/// The agent that stops where a test wants to kill it. The same packages as below, so that little is built anew.
pub(crate) const BOUNDARIES: [&str; 6] = [
    "build",
    "--workspace",
    "--features",
    "usher-agent/boundaries",
    "--bin",
    "usher-agent-boundaries",
];
/// Those of them that know nothing of cgroups and runtimes: one cluster is enough.
const SAME_EVERYWHERE: [&str; 7] = [
    "chart::",
    "cli_explain::",
    "cli_pictures::",
    "outage::",
    "prometheus::",
    "sidecars::",
    "tuning::",
];
/// The tests of the cluster itself. They bring up their own, so plain `cargo test` leaves them out.
const SMOKE_TARGET: &str = "smoke";
/// The clusters that they bring up.
const SMOKE: [&str; 8] = [
    "smoke-hybrid",
    "smoke-v2",
    "smoke-two",
    "smoke-two-v2",
    "smoke-one",
    "smoke-other",
    "smoke-pair",
    "smoke-pair-v2",
];
/// How long a run of tests may take: three times what the longest takes on two idle cores.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// How long a soak goes on here.
const SOAK: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave out format, clippy, policies and rules
    #[arg(long)]
    without_lint: bool,
    /// Leave out the tests on real clusters
    #[arg(long)]
    without_cluster: bool,
    /// Leave out the soak
    #[arg(long)]
    without_soak: bool,
    /// Only a cluster with this cgroup layout: hybrid or v2
    #[arg(long, conflicts_with = "without_cluster")]
    layout: Option<Layout>,
}

pub(crate) fn run(args: &Args, skips_are_errors: bool) -> Result<ExitCode> {
    let clusters = !args.without_cluster && Uid::effective().is_root();
    let mut names = Vec::new();
    if clusters {
        names.push(CLUSTER);
    }
    if clusters && tests_the_cluster_itself(args.layout) {
        names.extend(SMOKE);
    }
    supervisor::run(&names, false, || everything(args, skips_are_errors))
}

/// Whether this is a pipeline, by what pipelines set.
pub(crate) fn skips_are_errors() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

fn everything(args: &Args, skips_are_errors: bool) -> Result<()> {
    let is_root = Uid::effective().is_root();
    let clusters = !args.without_cluster && is_root;
    // The first time, Kubernetes itself has to be built. The tests of the cluster have both kinds of containerd.
    let programs =
        clusters.then(|| thread::spawn(|| Programs::ready(Sidecars::All, Containerd::Two)));

    let mut steps = Steps::fail_fast("test");
    if !args.without_lint {
        lint::steps(&mut steps);
    }
    steps.run("build what tests start", || {
        run_command(&mut cargo(["build", "--workspace", "--bins"]))?;
        run_command(&mut cargo(BOUNDARIES))
    });
    // Before the tests, some of which look at the clock.
    if let Some(programs) = programs {
        steps.run("programs of the cluster", || match programs.join() {
            Ok(ready) => ready.map(drop),
            Err(_) => bail!("the thread that builds them panicked"),
        });
    } else if is_root {
        steps.run("programs of the node tests", ensure_packages);
    }
    let ahead = (!steps.failed()).then(|| ahead::begin(clusters));
    steps.run("unit and node tests", || {
        let targets = targets_without_cluster(&metadata()?);
        let named = targets.iter().flat_map(|name| ["--test", name]);
        run_within(
            LIMIT,
            test(skips_are_errors).args(["--lib", "--bins"]).args(named),
        )
    });
    // It waits for pods most of the time, and its judge allows for a busy machine.
    let soaks = !args.without_soak && is_root && !steps.failed();
    let soaking = soaks
        .then(|| thread::spawn(move || soak::soak(&soak::Args::short(SOAK), skips_are_errors)));
    let mut archive = PathBuf::new();
    if let Some(ahead) = ahead {
        steps.run("fuzz targets and image of the agent", || {
            archive = ahead.finish()?.unwrap_or_default();
            Ok(())
        });
    }
    match fuzz::has_compiler() {
        Ok(()) => steps.run("fuzz", fuzz::in_a_pipeline),
        Err(error) => steps.skip("fuzz", &format!("{error:#}"), skips_are_errors),
    }
    steps.run("examples in the documentation", || {
        run_command(test(skips_are_errors).arg("--doc"))
    });
    if clusters {
        beside_the_soak(&mut steps, &archive, args.layout, skips_are_errors);
    }
    // Before the other clusters, whose tests look at the clock.
    match soaking {
        // Nobody else would end it.
        Some(soaking) if steps.failed() => drop(soaking.join()),
        Some(soaking) => steps.run("soak", || {
            let soaked = soaking.join();
            soaked.unwrap_or_else(|_panic| bail!("the thread of the soak panicked"))
        }),
        None if is_root => {}
        None => steps.skip("soak", "it needs root", skips_are_errors),
    }
    if clusters {
        on_clusters(&mut steps, &archive, args.layout, skips_are_errors);
    } else if !args.without_cluster {
        steps.skip("cluster tests", "they need root", skips_are_errors);
    }
    steps.finish()
}

fn on_clusters(steps: &mut Steps, archive: &Path, wanted: Option<Layout>, skips_are_errors: bool) {
    let mut left_out: &[&str] = &[];
    for layout in wanted.map_or(vec![Layout::Hybrid, Layout::V2], |layout| vec![layout]) {
        let title = format!("cluster tests, cgroup layout {layout}");
        if layout == Layout::Hybrid && wanted.is_none() && !machine_has_cgroup_v1() {
            // Never an error: no pipeline on such a machine could be green.
            steps.skip(&title, "this machine has cgroup v2 only", false);
            continue;
        }
        steps.run(&title, || {
            on_cluster(layout, archive, left_out, skips_are_errors)
        });
        left_out = &SAME_EVERYWHERE;
    }
}

/// Clusters whose tests look at no clock.
fn beside_the_soak(
    steps: &mut Steps,
    archive: &Path,
    wanted: Option<Layout>,
    skips_are_errors: bool,
) {
    steps.run("two nodes", || on_two_nodes(archive, skips_are_errors));
    if tests_the_cluster_itself(wanted) {
        steps.run("the cluster itself", || {
            // What an earlier run may have left.
            supervisor::end(&SMOKE)?;
            let args = [
                "--test",
                SMOKE_TARGET,
                "--",
                "--ignored",
                "--test-threads=1",
            ];
            let tested = run_within(LIMIT, test(skips_are_errors).args(args));
            tested.and(supervisor::end(&SMOKE))
        });
    }
}

/// Whether there is a step of its own for it, which needs both layouts.
fn tests_the_cluster_itself(wanted: Option<Layout>) -> bool {
    wanted.is_none() && machine_has_cgroup_v1()
}

fn on_cluster(
    layout: Layout,
    archive: &Path,
    left_out: &[&str],
    skips_are_errors: bool,
) -> Result<()> {
    // What an earlier run may have left.
    supervisor::end(&[CLUSTER])?;
    // Both kinds of containerd in two runs.
    let containerd = match layout {
        Layout::Hybrid => Containerd::Debian,
        Layout::V2 => Containerd::Two,
    };
    let config = Config {
        cgroups: Some(layout),
        containerd: Some(containerd),
        sidecars: Sidecars::All,
        ..Config::from_env(CLUSTER)?
    };
    tested_on(config, CLUSTER_TARGET, archive, left_out, skips_are_errors)
}

fn on_two_nodes(archive: &Path, skips_are_errors: bool) -> Result<()> {
    supervisor::end(&[CLUSTER])?;
    let config = Config {
        nodes: Some(2),
        sidecars: Sidecars::Mesh,
        ..Config::from_env(CLUSTER)?
    };
    tested_on(config, NODES_TARGET, archive, &[], skips_are_errors)
}

/// Brings a cluster up, runs the tests there, and ends it.
fn tested_on(
    config: Config,
    target: &str,
    archive: &Path,
    left_out: &[&str],
    skips_are_errors: bool,
) -> Result<()> {
    let cluster = Cluster::with(config)?;
    let tested = cluster.up().and_then(|()| {
        cluster.import_image(archive)?;
        let skips = left_out.iter().flat_map(|name| ["--skip", name]);
        run_within(
            LIMIT,
            test(skips_are_errors)
                .args(["--test", target, "--"])
                .args(skips)
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
        .filter(|name| name != CLUSTER_TARGET && name != NODES_TARGET)
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_clusters_of_the_smoke_test_are_ended() {
        let folder = root().join("tests/cluster/tests");
        let texts = ["smoke.rs", "smoke/nodes.rs"]
            .map(|file| fs::read_to_string(folder.join(file)).unwrap());
        let named = texts.iter().flat_map(|text| text.split('"'));
        let named: BTreeSet<&str> = named.filter(|word| word.starts_with("smoke-")).collect();
        assert_eq!(named, BTreeSet::from(SMOKE));
    }

    #[test]
    fn cluster_tests_wait_for_their_cluster() {
        let names = targets_without_cluster(&metadata().unwrap());
        assert!(names.contains(&"synthetic".to_owned()), "{names:?}");
        for target in [CLUSTER_TARGET, NODES_TARGET] {
            assert!(!names.contains(&target.to_owned()), "{names:?}");
        }
    }
}
