//! `cargo xtask vm`: the suites that the kernel has to do with, on Debian's kernels, under software emulation.
//!
//! A guest boots in seconds without virtualization and is many times slower than the machine, so this says what works on
//! a kernel and nothing about time. It sees the machine's file system read-only, and writes into memory. What they came
//! to is kept in `tests/kernels.json`, of which docs/compatibility.md has the tables.

mod guest;
mod outcome;
mod results;
mod suite;

use std::{
    num::NonZero,
    panic::resume_unwind,
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use anyhow::{Result, bail};
use usher_cluster::{
    programs::{Kernel, Tools, kernel, tools},
    progress::say,
};

use self::{
    outcome::{Outcome, Reader},
    results::Results,
    suite::{PROBE, SUITES, Suite},
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
    /// Only tests whose names have this in them; what they come to is printed and not kept
    #[arg(long = "test", value_name = "PART")]
    tests: Vec<String>,
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
    let suites = suite::built(&names, &args.tests)?;
    let keeps = args.tests.is_empty();
    if keeps {
        results::change(Results::take_own)?;
    }
    let kernels: Vec<Kernel> = args
        .kernels
        .iter()
        .map(|series| kernel(series, &tools))
        .collect::<Result<_>>()?;
    let limit = Duration::from_secs(args.limit * 60);
    let try_on = |kernel: &Kernel| {
        tried(kernel, &tools, &suites, limit, keeps)
            .unwrap_or_else(|error| vec![format!("{}: {error:#}", kernel.release)])
    };
    // A guest keeps one processor busy.
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    let mut failed = Vec::new();
    for kernels in kernels.chunks(at_once) {
        failed.extend(thread::scope(|scope| {
            let guests: Vec<_> = kernels
                .iter()
                .map(|kernel| scope.spawn(|| try_on(kernel)))
                .collect();
            let ended = guests.into_iter().map(ScopedJoinHandle::join);
            ended
                .flat_map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
                .collect::<Vec<_>>()
        }));
    }
    if keeps {
        say(&tables()?);
        docs::write()?;
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs the suites in one guest, keeps what each came to as soon as it ended if it is to be kept, and names what failed.
fn tried(
    kernel: &Kernel,
    tools: &Tools,
    suites: &[Suite],
    limit: Duration,
    keeps: bool,
) -> Result<Vec<String>> {
    let release = kernel.release.as_str();
    let mut reader = Reader::default();
    let mut kept = Ok(());
    let keep = |outcome: &Outcome| match keeps {
        true => results::change(|results| results.take(release, outcome)),
        false => Ok(()),
    };
    let ended = guest::run(kernel, tools, suites, limit, |line| {
        say(&format!("{release}: {line}"));
        if let (Some(outcome), Ok(())) = (reader.take(line), &kept) {
            kept = keep(outcome);
        }
    });
    kept?;
    if let Some(outcome) = reader.unfinished().filter(|one| one.suite != PROBE) {
        keep(outcome)?;
    }
    let bad = |outcome: &&Outcome| outcome.suite != PROBE && outcome.code != Some(0);
    let bad = reader.outcomes.iter().filter(bad);
    let mut failed: Vec<String> = bad
        .map(|one| format!("{} on {release}: {}", one.suite, one.failed.join(" ")))
        .collect();
    if let Err(error) = ended {
        failed.push(format!("{release}: {error:#}"));
    }
    Ok(failed)
}
