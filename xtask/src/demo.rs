//! `cargo xtask demo`: the main job, for real, on a cluster of its own that is gone afterwards.
//!
//! A Job whose pod has Istio's proxy as a regular container does not complete when its app has ended. usher shows the
//! proxy out, and the Job takes no longer than one without a proxy. Every time is taken on one clock, from the app's
//! own last act on.

mod case;
mod lab;
mod read;
mod stream;
mod table;

use std::process::ExitCode;

use anyhow::{Result, bail};
use usher_cluster::{
    Cluster, Config,
    progress::{Progress, say},
};

use self::{
    case::Case,
    lab::Lab,
    table::{Row, Table},
};
use crate::{cluster, supervisor};

const CLUSTER: &str = "demo";
/// The Job that hangs while usher observes.
const OBSERVED: &str = "observe";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each Job is run; the table has the medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Keep the cluster, to look around in it
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    supervisor::run(&[CLUSTER], args.keep, || show(args.runs))
}

fn show(runs: u32) -> Result<()> {
    let progress = Progress::new();
    let cluster = prepare(&progress)?;
    let lab = Lab::open(&cluster)?;
    let mut failures = Vec::new();

    progress.step(Case::Observe.title());
    let observed = lab.observe(OBSERVED)?;
    failures.extend(observed.failure());
    progress.step(&observed.sentence());
    let released = lab.enforce(OBSERVED)?;
    progress.step(&format!(
        "Node annotated with usher.dev/mode=enforce: that Job is Complete {:.0} ms later",
        released.as_secs_f64() * 1e3
    ));

    let mut rows = Case::TIMED.map(Row::new);
    // In turn, so that what else the machine does falls on all of them.
    for turn in 1..=runs {
        for row in &mut rows {
            let case = row.case();
            progress.step(&format!("{} ({turn} of {runs})", case.title()));
            let sample = lab.run(case, turn)?;
            failures.extend(sample.failure(case));
            row.add(sample);
        }
    }
    say(&Table::new(&observed, &rows).to_string());
    if !failures.is_empty() {
        bail!("not as it should be: {}", failures.join("; "));
    }
    Ok(())
}

fn prepare(progress: &Progress) -> Result<Cluster> {
    progress.step("the agent's image, and a cluster of one node");
    let cluster = cluster::recreate(Config::from_env(CLUSTER)?)?;
    cluster::install_agent(&cluster)?;
    progress.step("usher runs on the node");
    Ok(cluster)
}
