//! `cargo xtask demo`: usher's main task on a real cluster, which is removed afterwards.
//!
//! A Job with Istio's proxy as a regular container does not complete when its app ends. usher terminates the proxy.

use std::{
    process::ExitCode,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use usher_cluster::{
    Cluster, Config, podlog,
    progress::Progress,
    workload::{app_container, istio_proxy_container, job},
};
use usher_tests::wait::poll_within;

use crate::{cluster, supervisor};

const CLUSTER: &str = "demo";
const NAMESPACE: &str = "default";
const APP: &str = "app";
/// Run time of the app. The proxy is ready before the app ends, as in most Jobs.
const RUN_FOR: &str = "2000ms";
const OBSERVED: &str = "observe";
const ENFORCED: &str = "enforce";
const ALONE: &str = "alone";
/// How long the agent observes a Job. A Job that completes takes 3 or 4 s.
const WATCHED: Duration = Duration::from_secs(6);
/// Longer than any expected event takes.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run() -> Result<ExitCode> {
    supervisor::run(&[CLUSTER], show)
}

fn show() -> Result<()> {
    let progress = Progress::new();
    progress.step("the agent's image, and a cluster of one node");
    let cluster = cluster::recreate(Config::from_env(CLUSTER)?)?;
    cluster::install_agent(&cluster)?;

    progress.step("Job with Istio's proxy, usher observes");
    cluster.apply(&job_with_proxy(OBSERVED))?;
    let ended = app_end(&cluster, OBSERVED)?;
    thread::sleep(WATCHED);
    let observed = cluster.kubectl_json(&["-n", NAMESPACE, "get", "job", OBSERVED]);
    let observed = observed.context("reading the Job")?;
    ensure!(
        observed["status"]["succeeded"].is_null(),
        "the Job completed while usher observes"
    );
    progress.step(&format!(
        "{} ms after its app's end the Job is not Complete",
        ms(ended, SystemTime::now())
    ));

    let from = SystemTime::now();
    let node = cluster.node_name();
    cluster.kubectl(&["annotate", "node", node, "usher.dev/mode=enforce"])?;
    let complete = wait(&cluster, OBSERVED, LIMIT)?;
    progress.step(&format!(
        "Node annotated with usher.dev/mode=enforce: that Job is Complete {} ms later",
        ms(from, complete)
    ));

    let run = |job: &Value, name: &str| -> Result<()> {
        cluster.apply(job)?;
        let complete = wait(&cluster, name, LIMIT)?;
        progress.step(&format!(
            "Complete {} ms after its app's end",
            ms(app_end(&cluster, name)?, complete)
        ));
        Ok(())
    };
    progress.step("Job with Istio's proxy, usher enforces");
    run(&job_with_proxy(ENFORCED), ENFORCED)?;
    progress.step("for comparison, a Job without a sidecar");
    run(&job(ALONE, NAMESPACE, "Never", &[app()]), ALONE)
}

fn app() -> Value {
    app_container(APP, &["--run-for", RUN_FOR])
}

fn job_with_proxy(name: &str) -> Value {
    job(name, NAMESPACE, "Never", &[app(), istio_proxy_container()])
}

/// Waits until the Job is Complete. Returns the time at which the watch of `kubectl wait` reported it.
fn wait(cluster: &Cluster, job: &str, limit: Duration) -> Result<SystemTime> {
    let job = format!("job/{job}");
    let timeout = format!("--timeout={}s", limit.as_secs());
    let wait = ["wait", "--for=condition=Complete", &job, &timeout];
    cluster.kubectl(&[&["-n", NAMESPACE], &wait[..]].concat())?;
    Ok(SystemTime::now())
}

/// Waits for the time that the Job's app logs as its last action.
fn app_end(cluster: &Cluster, job: &str) -> Result<SystemTime> {
    let job = format!("job/{job}");
    let log = ["-n", NAMESPACE, "logs", &job, "-c", APP];
    let logged = || {
        // An error until the container has started.
        let log = cluster.kubectl(&log).ok()?;
        podlog::last_value(&log, "app-exit", "unix_ns")
    };
    let at =
        poll_within(LIMIT, logged).with_context(|| format!("no app-exit in the log of {job}"))?;
    Ok(UNIX_EPOCH + Duration::from_nanos(at))
}

fn ms(from: SystemTime, to: SystemTime) -> u128 {
    to.duration_since(from).unwrap_or_default().as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_a_regular_container() {
        let job = job_with_proxy(OBSERVED);
        let containers = job["spec"]["template"]["spec"]["containers"].as_array();
        let names = containers.unwrap().iter().map(|one| &one["name"]);
        assert_eq!(names.collect::<Vec<_>>(), ["app", "istio-proxy"]);
    }
}
