//! `cargo xtask demo`: usher's main task on a real cluster, which is removed afterwards.
//!
//! A Job with Istio's proxy as a regular container does not complete when its app ends. usher terminates the proxy, and
//! the Job takes as long as one without a proxy. All times are on one clock and start with the app's own last action.

mod lab;
mod table;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use usher_cluster::{
    Config,
    progress::{Progress, say},
    workload::{app_container, istio_proxy_container, job, native_sidecar},
};

use self::lab::{APP, Lab, NAMESPACE};
use crate::{cluster, supervisor};

const CLUSTER: &str = "demo";
/// Run time of the app. The proxy is ready before the app ends, as in most Jobs.
const RUN_FOR_MS: u32 = 2000;
/// The kubelet checks its containers once per second: each turn shifts the app's end within that second.
const SHIFT_MS: u32 = 333;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of runs of each Job; the table has the medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Keep the cluster
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Observe,
    Enforce,
    Plain,
    Native,
}

impl Case {
    /// The cases that complete.
    const TIMED: [Self; 3] = [Self::Enforce, Self::Plain, Self::Native];

    fn title(self) -> &'static str {
        match self {
            Self::Observe => "Job with Istio's proxy, usher observes",
            Self::Enforce => "Job with Istio's proxy, usher enforces",
            Self::Plain => "Job without a sidecar",
            Self::Native => "Job with the proxy as a native sidecar",
        }
    }

    /// The name of the case's Job.
    fn name(self, turn: u32) -> String {
        format!("{self:?}-{turn}").to_lowercase()
    }

    /// The app's run time differs between turns.
    fn job(self, turn: u32) -> Value {
        let run_for = format!("{}ms", RUN_FOR_MS + turn % 3 * SHIFT_MS);
        let mut containers = vec![app_container(APP, &["--run-for", &run_for])];
        if matches!(self, Self::Observe | Self::Enforce) {
            containers.push(istio_proxy_container());
        }
        let mut job = job(&self.name(turn), NAMESPACE, "Never", &containers);
        if self == Self::Native {
            job["spec"]["template"]["spec"]["initContainers"] =
                json!([native_sidecar(istio_proxy_container())]);
        }
        job
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    supervisor::run(&[CLUSTER], args.keep, || show(args.runs))
}

fn show(runs: u32) -> Result<()> {
    let progress = Progress::new();
    progress.step("the agent's image, and a cluster of one node");
    let cluster = cluster::recreate(Config::from_env(CLUSTER)?)?;
    cluster::install_agent(&cluster)?;
    let lab = Lab::open(&cluster)?;
    progress.step(Case::Observe.title());
    let observed = lab.observe()?;
    progress.step(&format!(
        "{:.0} ms after its app's end the Job is not Complete",
        observed.watched_ms
    ));
    let released = lab.enforce()?;
    progress.step(&format!(
        "Node annotated with usher.dev/mode=enforce: that Job is Complete {released:.0} ms later"
    ));
    let mut rows = Case::TIMED.map(|case| (case, Vec::new()));
    // The cases alternate, so that other load of the machine affects all of them.
    for turn in 1..=runs {
        for (case, samples) in &mut rows {
            progress.step(&format!("{} ({turn} of {runs})", case.title()));
            let sample = lab.run(*case, turn)?;
            ensure!(
                *case != Case::Enforce || sample.accepted_ms.is_some(),
                "{}: usher's log has no accepted request",
                case.title()
            );
            samples.push(sample);
        }
    }
    say(&table::table(&observed, &rows));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_differ_in_the_place_of_the_proxy() {
        let spec = |case: Case| case.job(0)["spec"]["template"]["spec"].clone();
        let names = |list: &Value| -> Vec<String> {
            let list = list.as_array().cloned().unwrap_or_default();
            list.iter().map(|one| one["name"].to_string()).collect()
        };
        let regular = spec(Case::Enforce);
        assert_eq!(
            names(&regular["containers"]),
            ["\"app\"", "\"istio-proxy\""]
        );
        assert_eq!(regular, spec(Case::Observe));
        assert_eq!(names(&spec(Case::Plain)["containers"]), ["\"app\""]);
        let native = spec(Case::Native);
        assert_eq!(names(&native["containers"]), ["\"app\""]);
        assert_eq!(native["initContainers"][0]["restartPolicy"], "Always");
        assert_eq!(Case::Native.name(2), "native-2");
    }
}
