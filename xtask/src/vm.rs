//! `cargo xtask vm`: the suites that the kernel has to do with, on Debian's kernels, under software emulation.
//!
//! A guest boots in seconds without virtualization and is many times slower than the machine, so this says what works on
//! a kernel and nothing about time. It sees the machine's file system read-only, and writes into memory. What they came
//! to is kept in `tests/kernels.json`, of which docs/compatibility.md has the tables.

mod guest;
mod outcome;
mod results;
mod suite;

use std::time::Duration;

use anyhow::{Result, bail};
use usher_cluster::{
    programs::{kernel, tools},
    progress::say,
};

use self::{
    outcome::{Outcome, Reader},
    results::Results,
    suite::{PROBE, SUITES},
};
use crate::docs;

pub(crate) use results::tables;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Series of the kernels
    #[arg(long = "kernel", value_name = "SERIES", default_values = ["6.1", "6.12"])]
    kernels: Vec<String>,
    /// Suites to run [default: all that the kernel has to do with]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// How long a guest may take
    #[arg(long, default_value = "60", value_name = "MINUTES")]
    limit: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = tools()?;
    let all = || SUITES.map(str::to_owned).to_vec();
    let names = if args.suites.is_empty() {
        all()
    } else {
        args.suites.clone()
    };
    let suites = suite::built(&names)?;
    let mut results = Results::kept()?;
    results.take_own()?;
    let mut failed = Vec::new();
    for series in &args.kernels {
        let kernel = kernel(series, &tools)?;
        say(&format!("=== Linux {} ===", kernel.release));
        let mut reader = Reader::default();
        let limit = Duration::from_secs(args.limit * 60);
        let ended = guest::run(&kernel, &tools, &suites, limit, |line| {
            say(line);
            reader.take(line);
        });
        let bad = |outcome: &&Outcome| outcome.suite != PROBE && outcome.code != Some(0);
        failed.extend(
            reader
                .outcomes
                .iter()
                .filter(bad)
                .map(|one| format!("{} on {}", one.suite, kernel.release)),
        );
        if let Err(error) = ended {
            failed.push(format!("{}: {error:#}", kernel.release));
        }
        results.take(&kernel.release, &reader.outcomes)?;
        results.keep()?;
    }
    say(&results.tables());
    docs::write()?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
