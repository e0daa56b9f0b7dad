//! `cargo xtask soak`: Jobs of all kinds at random with random faults for hours, under a judge.
//!
//! The program is `tests/tests/soak`; on synthetic pods, so that thousands fit into an hour.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::{Result, bail};
use nix::unistd::Uid;
use usher_core::base::duration;

use crate::{
    supervisor,
    workspace::{cargo, run as run_command, run_within, target_dir},
};

/// Where the summaries are.
const PLACE: &str = "soak";
/// A round that began may end, and what is not built has to be: beyond the time that was asked for.
const MORE: Duration = Duration::from_secs(20 * 60);
/// What its agents log: the judge asks for decisions of every kind.
const LOG: (&str, &str) = (
    "USHER_AGENT_LOG",
    "info,usher_agent::telemetry::decision_log=debug",
);
/// The seed of a pipeline.
const PIPELINE: u64 = 11;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long it goes on; a round that began is played to its end
    #[arg(long = "for", default_value = "2h", value_parser = duration)]
    length: Duration,
    /// What decides everything that happens; without it another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// The first round that is played, to have one again that went wrong
    #[arg(long, default_value_t = 0)]
    round: u64,
    /// Pods that there may be at once
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=250))]
    pods: u32,
}

impl Args {
    /// What a pipeline runs: short, and the same each time. A change is judged by itself there; new weather is for longer soaks.
    pub(crate) const fn short(length: Duration) -> Self {
        Self {
            length,
            seed: Some(PIPELINE),
            round: 0,
            pods: 40,
        }
    }
}

pub(crate) fn run(args: &Args, skips_are_errors: bool) -> Result<ExitCode> {
    if !Uid::effective().is_root() {
        bail!("a soak needs root: namespaces, mounts and cgroups");
    }
    supervisor::run(&[], false, || {
        run_command(&mut cargo(["build", "--workspace", "--bins"]))?;
        soak(args, skips_are_errors)
    })
}

/// The soak itself, with everything built.
pub(crate) fn soak(args: &Args, skips_are_errors: bool) -> Result<()> {
    let seed = args.seed.unwrap_or_else(of_now);
    let mut soak = cargo(["test", "--workspace", "--test", "soak", "--"]);
    if skips_are_errors {
        soak.env("CI", "true");
    }
    soak.args(["--exact", "soak", "--ignored", "--nocapture"])
        .env(LOG.0, LOG.1)
        .env("USHER_SOAK_SECONDS", args.length.as_secs().to_string())
        .env("USHER_SOAK_SEED", seed.to_string())
        .env("USHER_SOAK_ROUND", args.round.to_string())
        .env("USHER_SOAK_PODS", args.pods.to_string())
        .env("USHER_SOAK_DIRECTORY", target_dir().join(PLACE));
    run_within(args.length + MORE, &mut soak)
}

/// Another one each time, and short enough to be typed.
fn of_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| now.as_secs() % 1_000_000)
}

fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}
