//! Parallel Jobs, each with its own way to end the proxy: from the app's last instruction to the completion of the Job.
//!
//! The first is a line of the app's log, the second is the time of a watch event, both of the machine's clock.

use std::{
    process,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{NAMESPACE, Variant, controller, follow::Watch};
use crate::{Cluster, podlog::runs};

/// Longer than any step takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
const ROUND: &str = "usher.test/round";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Runs a Job of each kind until all are complete, and removes them. Returns for each the time from the app's exit to
/// its completion.
pub fn complete_jobs(cluster: &Cluster, variants: &[Variant]) -> Result<Vec<Duration>> {
    let round = format!(
        "round-{}-{}",
        process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    let names: Vec<String> = (0..variants.len())
        .map(|n| format!("{round}-{n}"))
        .collect();
    let objects = variants.iter().zip(&names).map(|(variant, name)| {
        let mut object = variant.object(name);
        object["metadata"]["labels"] = json!({ ROUND: round });
        object
    });
    let objects: Vec<Value> = objects.collect();
    let pods = Watch::start(cluster)?;
    cluster.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": objects }))?;
    let jobs = Jobs {
        cluster,
        round: &round,
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let controller = scope.spawn(move || controller::run(cluster, &pods, over));
        let took = jobs.all_complete(&names);
        over.store(true, Ordering::Relaxed);
        let controlled = controller.join();
        controlled.unwrap_or_else(|_| bail!("the thread of the controller panicked"))?;
        took
    })
}

/// Existing Jobs, removed on drop.
struct Jobs<'jobs> {
    cluster: &'jobs Cluster,
    round: &'jobs str,
}

impl Jobs<'_> {
    fn all_complete(&self, names: &[String]) -> Result<Vec<Duration>> {
        let watch = Watch::follow(self.cluster, "jobs")?;
        let mut complete: Vec<Option<SystemTime>> = vec![None; names.len()];
        while complete.contains(&None) {
            let ours = |job: &Value| {
                job["metadata"]["labels"][ROUND] == self.round && is_over(job).is_some()
            };
            let (at, job) = watch.until(LIMIT, "all Jobs to be complete", ours)?;
            let name = job["metadata"]["name"].as_str().unwrap_or_default();
            ensure!(
                is_over(&job) == Some("Complete"),
                "Job {name}: {}",
                job["status"]
            );
            let number = names.iter().position(|one| one == name);
            let number = number.with_context(|| format!("Job {name} was not created"))?;
            complete[number].get_or_insert(at);
        }
        let took = names.iter().zip(complete).map(|(name, complete)| {
            let exited_at = self.exited_at(name)?;
            let complete = complete.context("it is complete")?;
            let took = complete.duration_since(exited_at);
            took.with_context(|| format!("Job {name} was complete before its app ended"))
        });
        took.collect()
    }

    fn exited_at(&self, job: &str) -> Result<SystemTime> {
        let selector = format!("app={job}");
        let list = ["-n", NAMESPACE, "get", "pods", "-l", &selector];
        let pods = self.cluster.kubectl_json(&list)?;
        let runs = runs(self.cluster, &pods["items"][0], "app")?;
        let last = runs.last();
        Ok(last
            .with_context(|| format!("the app of {job} did not run"))?
            .exited_at)
    }
}

impl Drop for Jobs<'_> {
    fn drop(&mut self) {
        let selector = format!("{ROUND}={}", self.round);
        let delete = ["-n", NAMESPACE, "delete", "jobs", "-l", &selector];
        let how = ["--cascade=foreground", "--timeout=60s"];
        // The cluster may be gone.
        self.cluster.kubectl(&[&delete[..], &how].concat()).ok();
    }
}

/// The outcome of a finished Job.
fn is_over(job: &Value) -> Option<&str> {
    let conditions = job["status"]["conditions"].as_array()?.iter();
    let mut over = conditions.filter(|one| one["status"] == "True");
    let over = over.find(|one| one["type"] == "Complete" || one["type"] == "Failed")?;
    over["type"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_condition_ends_a_job() {
        let job = |kind: &str, status: &str| {
            json!({ "status": { "conditions": [
                { "type": "SuccessCriteriaMet", "status": "True" },
                { "type": kind, "status": status },
            ] } })
        };
        assert_eq!(is_over(&job("Complete", "True")), Some("Complete"));
        assert_eq!(is_over(&job("Failed", "True")), Some("Failed"));
        assert_eq!(is_over(&job("Complete", "False")), None);
        assert_eq!(is_over(&json!({})), None);
    }
}
