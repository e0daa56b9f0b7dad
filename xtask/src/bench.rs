//! `cargo xtask bench`: how fast it is, beside the alternative, in the same run on the same machine.

mod start;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::{
    image,
    workspace::{cargo, run as run_command},
};

/// Says which build of the CNI plugin synthetic pods are announced by.
const PLUGIN_VARIABLE: &str = "USHER_CNI_BIN";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// From an app's exit to its sidecar's request to quit, by the agent and by a wrapper in the container
    Quit {
        /// Measure less
        #[arg(long)]
        quick: bool,
        /// Exit with 1 when a budget is not kept
        #[arg(long)]
        enforce: bool,
    },
    /// From a sidecar being ready to its app's first connection, with the agent and with what is done without it
    Hold {
        /// Measure less
        #[arg(long)]
        quick: bool,
        /// Exit with 1 when a budget is not kept
        #[arg(long)]
        enforce: bool,
    },
    /// From a sidecar being ready to its app's first instruction, on a real cluster, with the agent, with Istio's own hold
    /// and with a wrapper around the app's command
    Start(start::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (name, quick, enforce) = match &args.what {
        What::Quit { quick, enforce } => ("quit", *quick, *enforce),
        What::Hold { quick, enforce } => ("hold", *quick, *enforce),
        What::Start(args) => return start::run(args),
    };
    on_synthetic_pods(name, quick, enforce).map(|()| ExitCode::SUCCESS)
}

fn on_synthetic_pods(name: &str, quick: bool, enforce: bool) -> Result<()> {
    run_command(&mut cargo([
        "build",
        "--release",
        "--package",
        "usher-agent",
    ]))?;
    // As it is shipped: loading shared libraries takes longer than all that it does.
    let plugin = image::plugin()?;
    let mut bench = cargo(["bench", "--package", "usher-tests", "--bench", name, "--"]);
    bench.args(quick.then_some("--quick"));
    bench.args(enforce.then_some("--enforce"));
    run_command(bench.env(PLUGIN_VARIABLE, plugin))
}
