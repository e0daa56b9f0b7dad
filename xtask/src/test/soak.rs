//! `cargo xtask soak`: random Jobs with random faults on synthetic pods, with a judge.
//!
//! The program is `tests/tests/soak`. Synthetic pods are cheap, so an hour has thousands.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::{Result, ensure};
use nix::unistd::Uid;
use usher_core::base::duration;

use super::skips_are_errors;
use crate::{
    supervisor,
    workspace::{cargo, run as run_command, run_within, target_dir},
};

/// Time for the build and for the end of the last round, in addition to the length of the soak.
const EXTRA: Duration = Duration::from_secs(20 * 60);
/// Logs the decisions of every kind, for the judge.
const LOG: (&str, &str) = (
    "USHER_AGENT_LOG",
    "info,usher_agent::telemetry::decision_log=debug",
);
const PIPELINE_SEED: u64 = 11;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Length; the last round is completed
    #[arg(long = "for", default_value = "2h", value_parser = duration::parse)]
    length: Duration,
    /// Seed of everything random [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// First round, to repeat one that failed
    #[arg(long, default_value_t = 0)]
    round: u64,
    /// Maximum number of pods at once
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=250))]
    pods: u32,
}

impl Args {
    /// For a pipeline: the same seed every time, so that it judges the change and not the seed.
    pub(crate) const fn short(length: Duration) -> Self {
        Self {
            length,
            seed: Some(PIPELINE_SEED),
            round: 0,
            pods: 40,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        Uid::effective().is_root(),
        "a soak needs root for namespaces, mounts and cgroups"
    );
    supervisor::run(&[], || {
        run_command(&mut cargo(["build", "--workspace", "--bins"]))?;
        soak(args, skips_are_errors())
    })
}

/// Everything must already be built.
pub(crate) fn soak(args: &Args, skips_are_errors: bool) -> Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A short seed is easy to type.
    let random = || now.map_or(1, |now| now.as_secs() % 1_000_000);
    let seed = args.seed.unwrap_or_else(random);
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
        .env("USHER_SOAK_DIRECTORY", target_dir().join("soak"));
    run_within(args.length + EXTRA, &soak)
}
