//! `cargo xtask test`: lint, unit tests, node tests with synthetic pods, then the agent's image on a real cluster.
//!
//! The first step that fails ends the task; [`rerun`] repeats one or two tests that failed. A step that the machine
//! cannot run is skipped; with `CI=true` that is a failure.

mod background;
pub(crate) mod clusters;
pub(crate) mod fuzz;
mod rerun;
pub(crate) mod soak;
mod verdict;
pub(crate) mod vm;

use std::{
    env,
    path::Path,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use cargo_metadata::{Metadata, TargetKind};
use nix::unistd::Uid;
use usher_cluster::{
    Layout,
    programs::{Containerd, Kubernetes, Programs, Sidecars, ensure_packages},
};

use self::background::Background;
use crate::{
    bench, lint,
    list::List,
    step::Steps,
    supervisor,
    workspace::{cargo, metadata, run as run_command},
};

/// Builds an agent that stops at the points where a test kills it. Selects the packages of [`test_command`], so that
/// cargo builds dependencies once.
const BOUNDARIES: &str =
    "build --workspace --features usher-agent/boundaries --bin usher-agent-boundaries";
/// The test programs on a cluster of one node and of two.
const TARGETS: [&str; 2] = ["cluster", "nodes"];
/// Time limit for a run of tests: three times the longest on two idle cores.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// The parts of the tests that a run selects or skips.
static SELECTION: List = List(include_str!("test/selection.list"));
const SOAK: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also the second cgroup layout, two nodes, the tests of the cluster itself, a soak, fuzzing, examples in the
    /// documentation, and few samples of the benchmarks without a cluster
    #[arg(long)]
    all: bool,
    /// Skip format, clippy, rustdoc, policies and rules
    #[arg(long)]
    without_lint: bool,
    /// Skip the tests on real clusters
    #[arg(long)]
    without_cluster: bool,
    /// Cgroup layout of the cluster: hybrid or v2 [default: v2; with --all both]
    #[arg(long, conflicts_with = "without_cluster")]
    layout: Option<Layout>,
}

/// The tests that this run selects.
#[derive(Debug, Clone, Copy)]
struct Scope {
    all: bool,
    has_lint: bool,
    has_clusters: bool,
    /// Root is needed for namespaces, mounts and cgroups.
    is_root: bool,
    skips_are_errors: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let skips_are_errors = skips_are_errors();
    let is_root = Uid::effective().is_root();
    let scope = Scope {
        all: args.all,
        has_lint: !args.without_lint,
        has_clusters: !args.without_cluster && is_root,
        is_root,
        skips_are_errors,
    };
    let layouts = clusters::layouts(args.layout, args.all);
    let names = scope.has_clusters.then(|| clusters::names(scope.all));
    let names = names.unwrap_or_default();
    supervisor::run(&names, || {
        let mut steps = Steps::fail_fast("test");
        all_steps(&mut steps, scope, &layouts);
        if !scope.is_root && !args.without_cluster {
            steps.skip("cluster tests", "they need root", skips_are_errors);
        }
        steps.finish()
    })
}

/// Whether the task runs in a pipeline.
fn skips_are_errors() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

fn all_steps(steps: &mut Steps, scope: Scope, layouts: &[Layout]) {
    // On a new machine this builds Kubernetes.
    let programs = scope.has_clusters.then(|| {
        let containerd = if layouts.contains(&Layout::V2) {
            Containerd::Two
        } else {
            Containerd::Debian
        };
        thread::spawn(move || {
            background::use_idle_time();
            Programs::ready(Sidecars::All, containerd, Kubernetes::default())
        })
    });
    if scope.has_lint {
        lint::quick_steps(steps);
    }
    steps.run("build programs", build);
    if scope.is_root {
        steps.run("packages of the tests", ensure_packages);
    }
    if steps.failed() {
        return;
    }
    let background = Background::start(scope);
    rerun::step(steps, "unit and node tests", || {
        let targets = targets_without_cluster(&metadata()?);
        let targets = targets.iter().flat_map(|name| ["--test", name]);
        let targets = targets.collect::<Vec<_>>();
        let command = || {
            let mut tests = test_command(scope);
            tests.args(["--lib", "--bins"]).args(&targets);
            tests
        };
        rerun::run(command, &[])
    });
    // Not at idle priority: libFuzzer would report a starved input as a hang.
    let fuzz = (scope.all && !steps.failed()).then(|| thread::spawn(move || fuzz_steps(scope)));
    if let Some(programs) = programs {
        steps.run("programs of the cluster", || match programs.join() {
            Ok(ready) => ready.map(drop),
            Err(_) => bail!("the thread that builds them panicked"),
        });
    }
    let image = scope
        .has_clusters
        .then(|| clusters::steps(steps, scope, layouts, &background))
        .flatten();
    if scope.all && scope.is_root && !steps.failed() {
        more_steps(steps, scope, image.as_deref());
    }
    // After a failure, the end of this process stops the background work.
    if !steps.failed() {
        for ended in [fuzz, Some(background.into_thread())].into_iter().flatten() {
            match ended.join() {
                Ok(others) => steps.append(others),
                Err(_) => steps.run("background work", || bail!("its thread panicked")),
            }
        }
    }
}

/// Runs while the cluster starts and its tests wait for pods.
fn fuzz_steps(scope: Scope) -> Steps {
    let mut steps = Steps::keep_going("test");
    match fuzz::has_compiler() {
        Ok(()) => steps.run("fuzz", fuzz::in_pipeline),
        Err(error) => steps.skip("fuzz", &format!("{error:#}"), scope.skips_are_errors),
    }
    steps
}

/// The soak waits for pods most of the time; the clusters at the same time have no tests that measure time.
fn more_steps(steps: &mut Steps, scope: Scope, image: Option<&Path>) {
    let soak = thread::spawn(move || soak::soak(&soak::Args::short(SOAK), scope.skips_are_errors));
    if let Some(image) = image {
        clusters::more_steps(steps, scope, image);
    }
    // Joined even after a failure: the soak removes its pods at its end.
    let soaked = soak.join();
    steps.run("soak", || {
        soaked.unwrap_or_else(|_panic| bail!("the thread of the soak panicked"))
    });
    steps.run("benchmarks with few samples", bench::smoke);
}

/// The programs that tests start.
fn build() -> Result<()> {
    run_command(&mut cargo(["build", "--workspace", "--bins"]))?;
    run_command(&mut cargo(BOUNDARIES.split(' ')))
}

/// Selects all packages: with another selection the features differ, and cargo builds dependencies again.
fn test_command(scope: Scope) -> Command {
    let mut test = cargo(["test", "--workspace"]);
    if scope.skips_are_errors {
        test.env("CI", "true");
    }
    test
}

fn targets_without_cluster(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages().into_iter();
    let targets = packages.flat_map(|package| &package.targets);
    let mut names: Vec<String> = targets
        .filter(|target| target.kind.contains(&TargetKind::Test))
        .map(|target| target.name.clone())
        .filter(|name| !TARGETS.contains(&name.as_str()))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_cluster_are_not_among_the_others() {
        let names = targets_without_cluster(&metadata().unwrap());
        assert!(names.contains(&"synthetic".to_owned()), "{names:?}");
        for target in TARGETS {
            assert!(!names.contains(&target.to_owned()), "{names:?}");
        }
    }
}
