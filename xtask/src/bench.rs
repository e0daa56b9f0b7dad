//! `cargo xtask bench`: usher and its alternatives, measured in the same run on the same machine.
//!
//! Each benchmark writes a record to `target/bench`. Once every benchmark has a record, each run and
//! `cargo xtask bench report` write `docs/performance.md` and its pictures.

mod report;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use usher_cluster::{
    Config,
    programs::{Profile, Sidecars},
};
use usher_tests::record::{COMMAND_VARIABLE, FILE_VARIABLE};

use crate::{
    cluster,
    release::image,
    step::Steps,
    supervisor,
    workspace::{cargo, run as run_command, target_dir},
};

const CLUSTER: &str = "bench";
/// Variables with the paths of the programs for the synthetic nodes, in the order of the image.
const PROGRAM_VARIABLES: [&str; 3] = ["USHER_AGENT_BIN", "USHER_CLI_BIN", "USHER_CNI_BIN"];

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Benchmarks to run, or `report` to write docs/performance.md from earlier records [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<Name>,
    /// Take fewer samples
    #[arg(long)]
    quick: bool,
    /// Use this cluster, which is up, has Istio, and an agent that enforces
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Options of the benchmark: `start -- --alternatives`, `cluster -- --real-pods 30`, `-- --enforce` to exit with 1 if
    /// a budget is not kept
    #[arg(last = true)]
    more: Vec<String>,
}

/// In the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// App exit to quit request, by the agent and by a wrapper in the container
    Quit,
    /// Ready sidecar to the app's first connection, with the agent and with its alternatives
    Hold,
    /// Ready sidecar to the app's first instruction, on a cluster, with the agent and with its alternatives
    Start,
    /// Time that the CNI plugin adds to ADD, with an agent and without
    Cni,
    /// Cost of the agent on a full node: at rest, while pods come and go, and when all apps exit at once
    Scale,
    /// Memory of the agent while 50,000 pods come and go
    Turnover,
    /// Quit, CNI ADD, probes and the end of the agent while pods with costly packet filters attack, and without them
    Isolation,
    /// App exit to complete Job, on a cluster, with the agent and with its alternatives; then a node full of pods
    Cluster,
    /// Rolling restarts under load and deletions of pods, on a cluster, with the agent and with its alternatives
    Rollout,
    /// Time of `usher` for a pod with thousands of connections, and of `ss`
    Cli,
    /// Write the report
    Report,
}

impl Name {
    fn is_on_cluster(self) -> bool {
        matches!(self, Self::Start | Self::Rollout | Self::Cluster)
    }

    /// Everything except the report.
    fn benchmarks(names: &[Self]) -> impl Iterator<Item = Self> {
        names.iter().copied().filter(|name| *name != Self::Report)
    }

    /// The benchmarks among these names that need no cluster.
    fn synthetic(names: &[Self]) -> impl Iterator<Item = Self> {
        Self::benchmarks(names).filter(|name| !name.is_on_cluster())
    }

    /// The name of the benchmark's program and record.
    fn program(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let names = match &args.names[..] {
        [] => Name::value_variants(),
        names => names,
    };
    let needs_cluster = names.iter().any(|name| name.is_on_cluster());
    if needs_cluster && args.cluster.is_none() {
        return supervisor::run(&[CLUSTER], || measure(args, names));
    }
    measure(args, names).map(|()| ExitCode::SUCCESS)
}

/// Runs all benchmarks, continues after a failure, and writes the report.
fn measure(args: &Args, names: &[Name]) -> Result<()> {
    let mut steps = Steps::keep_going("bench");
    for name in Name::synthetic(names) {
        steps.run(&name.program(), || {
            on_synthetic_pods(name, args, &records())
        });
    }
    let on_cluster = names.iter().copied().filter(|name| name.is_on_cluster());
    let on_cluster: Vec<Name> = on_cluster.collect();
    let mut cluster_name = args.cluster.as_deref();
    if !on_cluster.is_empty() && cluster_name.is_none() {
        steps.run("a cluster with Istio and usher", || {
            prepare()?;
            cluster_name = Some(CLUSTER);
            Ok(())
        });
    }
    for name in on_cluster {
        steps.run(&name.program(), || {
            ensure!(cluster_name.is_some(), "no cluster");
            // The image has the measured programs, so the dev profile, which is built already, is enough.
            let mut bench = command(name, &["--profile", "dev"], args, &records());
            run_command(bench.envs(cluster_name.map(|name| (cluster::VARIABLE, name))))
        });
    }
    steps.run("report", report::write);
    steps.finish()
}

/// Checks that the benchmarks without a cluster run. The report does not use their records.
pub(crate) fn smoke() -> Result<()> {
    let args = Args {
        quick: true,
        ..Args::default()
    };
    let records = target_dir().join("bench-smoke");
    Name::synthetic(Name::value_variants())
        .try_for_each(|name| on_synthetic_pods(name, &args, &records))
}

fn on_synthetic_pods(name: Name, args: &Args, records: &Path) -> Result<()> {
    // Measure the released programs: loading shared libraries would take the plugin longer than its work, and another C
    // library uses memory differently.
    let programs = image::programs(Profile::Release)?;
    let mut bench = command(name, &[], args, records);
    run_command(bench.envs(PROGRAM_VARIABLES.into_iter().zip(programs)))
}

/// The command of a benchmark, with its options and the file of its record.
fn command(name: Name, cargo_options: &[&str], args: &Args, records: &Path) -> Command {
    let name = name.program();
    let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", &name]);
    bench.args(cargo_options).arg("--");
    let quick = args.quick.then_some("--quick");
    bench.args(quick).args(&args.more);
    let mut line = vec!["cargo xtask bench", &name];
    line.extend(quick);
    line.extend(args.more.iter().map(String::as_str));
    bench
        .env(FILE_VARIABLE, records.join(format!("{name}.json")))
        .env(COMMAND_VARIABLE, line.join(" "));
    bench
}

/// A new cluster with an agent that enforces.
fn prepare() -> Result<()> {
    let cluster = cluster::recreate(Config {
        sidecars: Sidecars::Istio,
        ..Config::from_env(CLUSTER)?
    })?;
    cluster::install_agent(&cluster)?;
    let node = ["annotate", "node", cluster.node_name()];
    let mode = ["usher.dev/mode=enforce", "--overwrite"];
    cluster.kubectl(&[&node[..], &mode].concat()).map(drop)
}

fn records() -> PathBuf {
    target_dir().join("bench")
}
