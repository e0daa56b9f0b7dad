//! `cargo xtask vm`: the suites that depend on the kernel, on Debian's kernels, under software emulation.
//!
//! A guest boots in seconds without virtualization and is many times slower than the machine, so the results are about
//! function and not about time. The guest mounts the machine's file system read-only and writes to memory. The tables in
//! docs/compatibility.md are written manually from the summary of a run.

mod guest;
mod outcome;
mod suite;

use std::{
    process::ExitCode,
    thread::{self, ScopedJoinHandle},
};

use anyhow::{Result, anyhow, ensure};
use usher_cluster::{
    programs::{Kernel, Tools, kernel, tools},
    progress::say,
};

use self::{outcome::Reader, suite::Suite};
use super::SELECTION;
use crate::supervisor;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Series of the kernels, which run at the same time and keep one processor busy each
    #[arg(long = "kernel", value_name = "SERIES", default_values = ["6.1", "6.12"])]
    kernels: Vec<String>,
    /// Suites to run [default: all that depend on the kernel]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // The emulators end with this program.
    supervisor::run(&[], || run_suites(args))
}

fn run_suites(args: &Args) -> Result<()> {
    let names = match &args.suites[..] {
        [] => SELECTION.cells("kernel").map(str::to_owned).collect(),
        names => names.to_vec(),
    };
    let (tools, suites) = (&tools()?, &suite::build(&names)?);
    let kernels = args.kernels.iter().map(|series| kernel(series, tools));
    let kernels: Vec<Kernel> = kernels.collect::<Result<_>>()?;
    let ended: Vec<_> = thread::scope(|scope| {
        let start = |kernel| scope.spawn(move || run_on(kernel, tools, suites));
        let guests: Vec<_> = kernels.iter().map(start).collect();
        guests.into_iter().map(ScopedJoinHandle::join).collect()
    });
    let mut failed = Vec::new();
    for (kernel, guest) in kernels.iter().zip(ended) {
        let release = &kernel.release;
        let (reader, result) =
            guest.map_err(|_panic| anyhow!("the thread of {release} panicked"))?;
        say(&format!("\n=== {release} ===\n{}", reader.summary()));
        let error = result.err().map(|error| format!("{error:#}"));
        let failures = reader.failures().chain(error);
        failed.extend(failures.map(|failure| format!("{release}: {failure}")));
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Runs the suites in one guest. The results are complete up to the end of the guest, also after an error.
fn run_on(kernel: &Kernel, tools: &Tools, suites: &[Suite]) -> (Reader, Result<()>) {
    let mut reader = Reader::new(suites);
    let result = guest::run(kernel, tools, suites, |line| {
        say(&format!("{}: {line}", kernel.release));
        reader.read(line);
    });
    (reader, result)
}
