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
    Cluster,
    progress::{Progress, say},
};

use self::{
    case::Case,
    lab::Lab,
    table::{Row, Table},
};
use crate::{chart::MANIFEST, image, supervisor, workspace::root};

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

/// The cluster with usher on it, made anew: an earlier one may be in any state.
fn prepare(progress: &Progress) -> Result<Cluster> {
    progress.step("the agent's image");
    let archive = image::agent()?;
    progress.step("a cluster: Kubernetes, containerd, one node");
    let cluster = Cluster::new(CLUSTER)?;
    cluster.down()?;
    cluster.up()?;
    cluster.import_image(&archive)?;
    progress.step(&format!("kubectl apply -f {MANIFEST}"));
    let manifest = root().join(MANIFEST).display().to_string();
    cluster.kubectl(&["apply", "-f", &manifest])?;
    let rollout = ["rollout", "status", lab::AGENT, "--timeout=120s"];
    cluster.kubectl(&[&["-n", lab::AGENT_NAMESPACE], &rollout[..]].concat())?;
    progress.step("usher runs on the node");
    Ok(cluster)
}
