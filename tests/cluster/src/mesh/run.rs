//! One Job in the mesh, from its creation to the end of its app.
//!
//! Times are of the machine's clock, which the app reads as well. Kubernetes has the time of a binding only to the
//! second, so the test uses the time of the watch event; the proxy is ready at its first 200 on port 15021, polled
//! every 2 ms in the pod's network namespace.

use std::{
    process, slice,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{
    NAMESPACE, Proxy, READY, Variant,
    follow::{Sandboxes, Watch},
    outage::Outage,
    unbound::unbind,
};
use crate::{
    Cluster,
    node::process::wait_until,
    podlog::{AppRun, run, runs},
};

/// Longer than any step takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
/// The time of polling before it checks whether the proxy still runs.
const SLICE: Duration = Duration::from_secs(3);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The outcome of a Job.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The last state of the pod.
    pub pod: Value,
    /// The time of the pod's binding.
    pub bound_at: SystemTime,
    /// The time at which istiod was resumed, if it had been stopped.
    pub continued_at: Option<SystemTime>,
    /// The time of the last poll at which the proxy was not ready.
    pub proxy_unready_at: Option<SystemTime>,
    /// None without a proxy, and if it exited before it was ready.
    pub proxy_ready_at: Option<SystemTime>,
    /// The user's init container, if there is one.
    pub init: Vec<AppRun>,
    /// More than one if the app failed under `OnFailure`, none if the init container failed.
    pub app: Vec<AppRun>,
}

impl Outcome {
    /// Whether the first run of the app was refused.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.app.first().is_some_and(|run| run.refused > 0)
    }

    /// Exit code of the app's last run.
    #[must_use]
    pub fn app_exit_code(&self) -> Option<u8> {
        self.app.last().map(|run| run.exit_code)
    }

    /// From the binding to the app's first successful response.
    #[must_use]
    pub fn first_good_answer(&self) -> Option<Duration> {
        let good = self.app.iter().find(|run| run.answer == Ok(200))?;
        good.answered_at?.duration_since(self.bound_at).ok()
    }
}

/// Runs a Job until its app has exited for good and its proxy was ready, and removes it. Jobs may run in parallel,
/// unless one of them requests a stop of istiod: those need [`run_jobs`]. For a Deployment the app's first exit
/// counts.
pub fn run_job(cluster: &Cluster, variant: &Variant) -> Result<Outcome> {
    let mut outcomes = run_jobs(cluster, slice::from_ref(variant), &|| true)?;
    outcomes.pop().context("one Job has one outcome")
}

/// Runs Jobs in parallel. istiod is stopped when the pods of all exist and before any is bound, for the longest of their
/// delays and until `enough` returns true.
pub fn run_jobs(
    cluster: &Cluster,
    variants: &[Variant],
    enough: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Outcome>> {
    let outage = Outage::wanted(cluster, variants)?;
    thread::scope(|scope| {
        let outage = outage.as_ref();
        let happens = outage.map(|outage| scope.spawn(|| outage.happen(enough)));
        let start = |variant| scope.spawn(move || run_one(cluster, variant, outage));
        let jobs: Vec<_> = variants.iter().map(start).collect();
        let outcomes = jobs.into_iter().map(|job| {
            job.join()
                .unwrap_or_else(|_| bail!("the thread of a Job panicked"))
        });
        let outcomes = outcomes.collect::<Result<Vec<_>>>();
        let ended = happens.map(|outage| {
            outage
                .join()
                .unwrap_or_else(|_| bail!("the thread that stops istiod panicked"))
        });
        let (mut outcomes, continued_at) = (outcomes?, ended.transpose()?);
        for outcome in &mut outcomes {
            outcome.continued_at = continued_at;
        }
        Ok(outcomes)
    })
}

fn run_one(cluster: &Cluster, variant: &Variant, outage: Option<&Outage<'_>>) -> Result<Outcome> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("job-{}-{number}", process::id());
    let watch = Watch::start(cluster)?;
    let mut object = variant.object(&name);
    if outage.is_some() {
        unbind(&mut object["spec"]["template"]["spec"]);
    }
    cluster.apply(&object)?;
    let job = Job {
        cluster,
        kind: variant.kind(),
        name: &name,
    };
    job.follow(variant, &watch, outage)
        .with_context(|| format!("Job {name} ({:?})", variant.proxy))
}

/// An existing Job, removed on drop.
struct Job<'job> {
    cluster: &'job Cluster,
    kind: &'static str,
    name: &'job str,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let delete = ["-n", NAMESPACE, "delete", self.kind, self.name];
        let how = ["--cascade=foreground", "--timeout=180s"];
        // The cluster may be gone.
        self.cluster.kubectl(&[&delete[..], &how].concat()).ok();
    }
}

impl Job<'_> {
    fn follow(
        &self,
        variant: &Variant,
        watch: &Watch,
        outage: Option<&Outage<'_>>,
    ) -> Result<Outcome> {
        let ours = |pod: &Value| pod["metadata"]["labels"]["app"] == self.name;
        let bound = |pod: &Value| ours(pod) && pod["spec"]["nodeName"].is_string();
        let mut wait_line = watch.until(LIMIT, "the pod to exist", ours)?;
        if let Some(outage) = outage {
            let name = wait_line.1["metadata"]["name"].as_str();
            outage.join(self.cluster, name.unwrap_or_default())?;
        }
        if !bound(&wait_line.1) {
            wait_line = watch.until(LIMIT, "the pod to be bound", bound)?;
        }
        let (bound_at, pod) = wait_line;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let never = AtomicBool::new(variant.proxy == Proxy::None);
        thread::scope(|scope| {
            let ready = scope.spawn(|| self.ready_at(name, &never));
            let app = self.app_runs(variant, &pod);
            let ran = app.as_ref().is_ok_and(|app| !app.is_empty());
            let waited = wait_until(LIMIT, "the proxy to be ready or to end", || {
                Ok(!ran || ready.is_finished() || self.has_ended(name))
            });
            never.store(true, Ordering::Relaxed);
            let (proxy_unready_at, proxy_ready_at) = ready
                .join()
                .unwrap_or_else(|_| bail!("the thread that asks the proxy panicked"))?;
            waited?;
            let get = ["-n", NAMESPACE, "get", "pod", name];
            Ok(Outcome {
                init: runs(self.cluster, &pod, "user-init")?,
                pod: self.cluster.kubectl_json(&get).unwrap_or(pod.clone()),
                bound_at,
                continued_at: None,
                proxy_unready_at,
                proxy_ready_at,
                app: app?,
            })
        })
    }

    /// Polls the proxy until it reports that it is ready, or has ended: the time of the last failed poll, and
    /// of the first successful one.
    fn ready_at(
        &self,
        pod: &str,
        never: &AtomicBool,
    ) -> Result<(Option<SystemTime>, Option<SystemTime>)> {
        let (mut sandboxes, mut network) = (Sandboxes::default(), None);
        wait_until(LIMIT, "the pod's network", || {
            network = sandboxes.network(self.cluster, pod);
            Ok(network.is_some() || never.load(Ordering::Relaxed))
        })?;
        let network = network.unwrap_or_default();
        let namespace = format!("--net={network}");
        let slice = format!("{}s", SLICE.as_secs());
        let ask = [
            "nsenter",
            &namespace,
            "usher-test-app",
            "--get",
            READY,
            "--retry-for",
            &slice,
        ];
        let mut unready = None;
        while !never.load(Ordering::Relaxed) {
            let began = SystemTime::now();
            // The command exits with 1, which is an error, if it was refused until the end of the slice.
            match self
                .cluster
                .in_node(&ask)
                .ok()
                .and_then(|output| run(&output))
            {
                Some(run) if run.answer == Ok(200) => {
                    return Ok((run.unready_at.or(unready), run.answered_at));
                }
                _ => unready = Some(began),
            }
        }
        Ok((unready, None))
    }

    /// Whether every container of the pod has ended for good; false also if the API server does not reply.
    fn has_ended(&self, pod: &str) -> bool {
        let phase = "jsonpath={.status.phase}";
        let get = ["-n", NAMESPACE, "get", "pod", pod, "-o", phase];
        let phase = self.cluster.kubectl(&get).unwrap_or_default();
        ["Failed", "Succeeded"].contains(&phase.as_str())
    }

    /// Waits for the last run of the app; there is none if the user's init container failed.
    fn app_runs(&self, variant: &Variant, pod: &Value) -> Result<Vec<AppRun>> {
        let mut found = Vec::new();
        let last = |run: &AppRun| run.exit_code == 0 || variant.restart_policy != "OnFailure";
        wait_until(LIMIT, "the end of the app", || {
            let init = runs(self.cluster, pod, "user-init")?;
            found = runs(self.cluster, pod, "app")?;
            Ok(found.last().is_some_and(last) || init.iter().any(|run| run.exit_code != 0))
        })?;
        Ok(found)
    }
}
