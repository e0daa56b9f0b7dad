//! `cargo xtask vm`: the suites that depend on the kernel, on Debian's kernels, under software emulation.
//!
//! A guest boots in seconds without virtualization and is many times slower than the machine, so the results are about
//! function and not about time. The guest mounts the machine's file system read-only and writes to memory. The results
//! are in `tests/kernels.json`; docs/compatibility.md has the tables.

mod guest;
mod outcome;
mod results;
mod suite;

use std::{num::NonZero, thread, time::Duration};

use anyhow::{Result, ensure};
use usher_cluster::{
    programs::{Kernel, Tools, kernel, tools},
    progress::say,
};

use self::{
    outcome::{Outcome, Reader},
    results::Results,
    suite::{PROBE, SUITES, Suite},
};
use crate::{docs, parallel};

pub(crate) use results::tables;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Series of the kernels
    #[arg(long = "kernel", value_name = "SERIES", default_values = ["6.1", "6.12"])]
    kernels: Vec<String>,
    /// Suites to run [default: all that depend on the kernel]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Only tests with this in their names; their results are printed and not stored
    #[arg(long = "test", value_name = "PART")]
    tests: Vec<String>,
    /// Time limit of a guest
    #[arg(long, default_value = "60", value_name = "MINUTES")]
    limit: u64,
}

/// The suites and limits that all guests share.
struct Plan {
    tools: Tools,
    suites: Vec<Suite>,
    limit: Duration,
    stores_results: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let names = match &args.suites[..] {
        [] => &SUITES.map(str::to_owned),
        names => names,
    };
    let plan = Plan {
        tools: tools()?,
        suites: suite::build(names, &args.tests)?,
        limit: Duration::from_secs(args.limit * 60),
        stores_results: args.tests.is_empty(),
    };
    if plan.stores_results {
        results::update(Results::probe_own_kernel)?;
    }
    let kernels: Vec<Kernel> = args
        .kernels
        .iter()
        .map(|series| kernel(series, &plan.tools))
        .collect::<Result<_>>()?;
    let run_on = |kernel: &Kernel| {
        plan.run_on(kernel)
            .unwrap_or_else(|error| vec![format!("{}: {error:#}", kernel.release)])
    };
    // A guest keeps one processor busy.
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    let mut failed = parallel::map(&kernels, at_once, run_on).concat();
    failed.sort();
    if plan.stores_results {
        say(&tables()?);
        docs::write()?;
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

impl Plan {
    /// Runs the suites in one guest and stores each result at its end. Returns the failures.
    fn run_on(&self, kernel: &Kernel) -> Result<Vec<String>> {
        let release = kernel.release.as_str();
        let store = |outcome: &Outcome| {
            if !self.stores_results {
                return Ok(());
            }
            results::update(|results| results.add(release, outcome))
        };
        let mut reader = Reader::default();
        let mut stored = Ok(());
        let ended = guest::run(kernel, &self.tools, &self.suites, self.limit, |line| {
            say(&format!("{release}: {line}"));
            if let (Some(outcome), Ok(())) = (reader.read(line), &stored) {
                stored = store(outcome);
            }
        });
        stored?;
        if let Some(outcome) = reader.unfinished().filter(|one| one.suite != PROBE) {
            store(outcome)?;
        }
        let mut failed: Vec<String> = reader
            .outcomes
            .iter()
            .filter(|one| one.suite != PROBE && one.code != Some(0))
            .map(|one| format!("{} on {release}: {}", one.suite, one.failed.join(" ")))
            .collect();
        if let Err(error) = ended {
            failed.push(format!("{release}: {error:#}"));
        }
        Ok(failed)
    }
}
