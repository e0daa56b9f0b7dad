//! `cargo xtask bench`: usher and its alternatives, measured in the same run on the same machine.
//!
//! Each benchmark writes a record to `target/bench`. With a record of each, every run and `cargo xtask bench report` write
//! `docs/performance.md` and its pictures.

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

/// Name the programs to the synthetic nodes, in the order of the image.
const PROGRAM_VARIABLES: [&str; 3] = ["USHER_AGENT_BIN", "USHER_CLI_BIN", "USHER_CNI_BIN"];
/// The benchmarks without a cluster.
const SYNTHETIC: [&str; 5] = ["quit", "hold", "cni", "cli", "scale"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One benchmark [default: all, with a new cluster]
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct Options {
    /// Take fewer samples
    #[arg(long, global = true)]
    quick: bool,
    /// Exit with 1 if a budget is not kept
    #[arg(long, global = true)]
    enforce: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// App exit to quit request, by the agent and by a wrapper in the container
    Quit,
    /// Ready sidecar to the app's first connection, with the agent and with its alternatives
    Hold,
    /// Time that the CNI plugin adds to ADD, with an agent and without
    Cni,
    /// Cost of the agent on a full node: at rest, while pods come and go, and when all apps exit at once
    Scale,
    /// Time of `usher` for a pod with thousands of connections, and of `ss`
    Cli,
    /// Ready sidecar to the app's first instruction, on a real cluster, with the agent, with Istio's own hold and with a
    /// wrapper of the app's command
    Start(cluster::StartArgs),
    /// App exit to complete Job, on a real cluster, with the agent, without a sidecar, with a native sidecar, with a wrapper
    /// and with a controller; then a node full of real pods
    Cluster(cluster::JobArgs),
    /// Write docs/performance.md from the records of earlier runs
    Report,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let options = args.options;
    let name = match &args.what {
        None => return all(options),
        Some(What::Report) => return report::write().map(|()| ExitCode::SUCCESS),
        Some(What::Start(args)) => return cluster::start(args, options),
        Some(What::Cluster(args)) => return cluster::jobs(args, options),
        Some(What::Quit) => "quit",
        Some(What::Hold) => "hold",
        Some(What::Cni) => "cni",
        Some(What::Scale) => "scale",
        Some(What::Cli) => "cli",
    };
    let mut steps = Steps::keep_going("bench");
    steps.run(name, || on_synthetic_pods(name, options));
    reported(steps)
}

/// All benchmarks, also after one that fails.
fn all(options: Options) -> Result<ExitCode> {
    cluster::supervised(|| {
        let mut steps = Steps::keep_going("bench");
        for name in SYNTHETIC {
            steps.run(name, || on_synthetic_pods(name, options));
        }
        cluster::all(&mut steps, options);
        reported(steps).map(drop)
    })
}

/// Whether the benchmarks without a cluster still run. Their records are not for the report.
pub(crate) fn smoke() -> Result<()> {
    let options = Options {
        quick: true,
        enforce: false,
    };
    let programs = image::programs()?;
    for name in SYNTHETIC {
        let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", name, "--"]);
        recorded(&mut bench, name, options, &[]);
        bench.env(FILE_VARIABLE, target_dir().join("bench-smoke.json"));
        run_command(bench.envs(PROGRAM_VARIABLES.into_iter().zip(&programs)))?;
    }
    Ok(())
}

/// Writes the report, also after a failure.
fn reported(mut steps: Steps) -> Result<ExitCode> {
    steps.run("report", report::write);
    steps.finish().map(|()| ExitCode::SUCCESS)
}

fn on_synthetic_pods(name: &str, options: Options) -> Result<()> {
    // As they are released: the plugin would need more time to load shared libraries than for its work, and another C
    // library keeps other pages.
    let programs = image::programs()?;
    let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", name, "--"]);
    recorded(&mut bench, name, options, &[]);
    run_command(bench.envs(PROGRAM_VARIABLES.into_iter().zip(programs)))
}

/// Sets the options of a benchmark and the file of its record.
fn recorded<'command>(
    bench: &'command mut std::process::Command,
    name: &str,
    options: Options,
    more: &[String],
) -> &'command mut std::process::Command {
    bench.args(options.quick.then_some("--quick"));
    bench.args(options.enforce.then_some("--enforce"));
    bench.args(more);
    let mut line = format!("cargo xtask bench {name}");
    if options.quick {
        line.push_str(" --quick");
    }
    for word in more {
        line.push_str(&format!(" {word}"));
    }
    bench
        .env(FILE_VARIABLE, records().join(format!("{name}.json")))
        .env(COMMAND_VARIABLE, line)
}

fn records() -> PathBuf {
    target_dir().join("bench")
}
