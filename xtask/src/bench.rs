//! `cargo xtask bench`: how fast it is, beside the alternatives, in the same run on the same machine.
//!
//! Each benchmark leaves a record in `target/bench`; when all have left one, `docs/performance.md` and its pictures are
//! written, at the end of each run and by `cargo xtask bench report`.

mod cluster;
mod report;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Subcommand;
use usher_tests::record::{COMMAND_VARIABLE, FILE_VARIABLE};

use crate::{
    release::image,
    step::Steps,
    workspace::{cargo, run as run_command, target_dir},
};

/// Say which builds of the programs synthetic pods are run with, in the order of the image's.
const PROGRAM_VARIABLES: [&str; 3] = ["USHER_AGENT_BIN", "USHER_CLI_BIN", "USHER_CNI_BIN"];
/// Those that need no cluster.
const SYNTHETIC: [&str; 5] = ["quit", "hold", "cni", "cli", "scale"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One of them [default: all, on a cluster of their own where they need one]
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct Manner {
    /// Measure less
    #[arg(long, global = true)]
    quick: bool,
    /// Exit with 1 when a budget is not kept
    #[arg(long, global = true)]
    enforce: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// From an app's exit to its sidecar's request to quit, by the agent and by a wrapper in the container
    Quit,
    /// From a sidecar being ready to its app's first connection, with the agent and with what is done without it
    Hold,
    /// What the CNI plugin adds to ADD, with an agent and without
    Cni,
    /// What the agent of a full node costs, at rest, while pods come and go, and when all apps exit at once
    Scale,
    /// How soon `usher` shows a pod with thousands of connections, beside `ss`
    Cli,
    /// From a sidecar being ready to its app's first instruction, on a real cluster, with the agent, with Istio's own hold
    /// and with a wrapper around the app's command
    Start(cluster::StartArgs),
    /// From an app's exit to its Job being complete, on a real cluster, with the agent, without a sidecar, with a native
    /// one, with a wrapper and with a controller; and a node full of real pods
    Cluster(cluster::JobArgs),
    /// Write docs/performance.md from the records of earlier runs
    Report,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let manner = args.manner;
    let name = match &args.what {
        None => return all(manner),
        Some(What::Report) => return report::write().map(|()| ExitCode::SUCCESS),
        Some(What::Start(args)) => return cluster::start(args, manner),
        Some(What::Cluster(args)) => return cluster::jobs(args, manner),
        Some(What::Quit) => "quit",
        Some(What::Hold) => "hold",
        Some(What::Cni) => "cni",
        Some(What::Scale) => "scale",
        Some(What::Cli) => "cli",
    };
    let mut steps = Steps::keep_going("bench");
    steps.run(name, || on_synthetic_pods(name, manner));
    reported(steps)
}

/// All of them; after one that fails the others are run as well.
fn all(manner: Manner) -> Result<ExitCode> {
    cluster::supervised(|| {
        let mut steps = Steps::keep_going("bench");
        for name in SYNTHETIC {
            steps.run(name, || on_synthetic_pods(name, manner));
        }
        cluster::all(&mut steps, manner);
        reported(steps).map(drop)
    })
}

/// Whether the benchmarks without a cluster still run. Their records are not for the report.
pub(crate) fn smoke() -> Result<()> {
    let manner = Manner {
        quick: true,
        enforce: false,
    };
    let programs = image::programs()?;
    for name in SYNTHETIC {
        let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", name, "--"]);
        recorded(&mut bench, name, manner, &[]);
        bench.env(FILE_VARIABLE, target_dir().join("bench-smoke.json"));
        run_command(bench.envs(PROGRAM_VARIABLES.into_iter().zip(&programs)))?;
    }
    Ok(())
}

/// The report, whatever became of the benchmarks.
fn reported(mut steps: Steps) -> Result<ExitCode> {
    steps.run("report", report::write);
    steps.finish().map(|()| ExitCode::SUCCESS)
}

fn on_synthetic_pods(name: &str, manner: Manner) -> Result<()> {
    // As they are shipped. Loading shared libraries takes the plugin longer than all that it does, and another C library
    // keeps other pages.
    let programs = image::programs()?;
    let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", name, "--"]);
    recorded(&mut bench, name, manner, &[]);
    run_command(bench.envs(PROGRAM_VARIABLES.into_iter().zip(programs)))
}

/// Tells a benchmark how much to measure, and where its record goes.
fn recorded<'command>(
    bench: &'command mut std::process::Command,
    name: &str,
    manner: Manner,
    more: &[String],
) -> &'command mut std::process::Command {
    bench.args(manner.quick.then_some("--quick"));
    bench.args(manner.enforce.then_some("--enforce"));
    bench.args(more);
    let mut line = format!("cargo xtask bench {name}");
    if manner.quick {
        line.push_str(" --quick");
    }
    for word in more {
        line.push_str(&format!(" {word}"));
    }
    bench
        .env(FILE_VARIABLE, records().join(format!("{name}.json")))
        .env(COMMAND_VARIABLE, line)
}

/// Where the records are.
fn records() -> PathBuf {
    target_dir().join("bench")
}
