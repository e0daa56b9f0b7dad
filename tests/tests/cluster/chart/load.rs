//! Jobs, two a second, or as many as the node can run, while the test changes the installation.
//!
//! Their sidecar is a real Envoy that starts after the app. With a hold the app's first connection waits; without one
//! the app retries it, so that a Job also completes while there is no agent. Only usher ends the sidecar.

use std::{
    env,
    io::Write,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use usher_cluster::{
    Cluster,
    podlog::{self, AppRun},
    workload::{ENVOY_PORT, app_container, envoy_container, job},
};

use crate::lab::{Lab, until};

/// The minimum duration of the load; a pipeline has less time than a person.
const LASTING: &str = "USHER_TEST_LOAD_SECONDS";
const SHORT: u64 = 20;
const EVERY: Duration = Duration::from_millis(500);
/// More incomplete Jobs would measure the machine.
const AT_ONCE: u32 = 12;

/// The kind of the Jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Like {
    /// An app and a sidecar, which it connects to.
    Meshed,
    /// Only an app.
    Plain,
}

/// Jobs that are created until the test has enough.
pub(super) struct Load<'scope> {
    enough: &'scope AtomicBool,
    made: Option<ScopedJoinHandle<'scope, u32>>,
}

impl<'scope> Load<'scope> {
    pub(super) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        cluster: &'scope Cluster,
        namespace: &'scope str,
        like: Like,
        enough: &'scope AtomicBool,
    ) -> Self {
        Self {
            enough,
            made: Some(scope.spawn(move || make(cluster, namespace, like, enough))),
        }
    }

    /// Continues for the minimum duration, then stops; returns the number of Jobs.
    pub(super) fn end(mut self) -> u32 {
        self.enough.store(true, Ordering::Relaxed);
        self.made.take().unwrap().join().unwrap()
    }
}

/// A failed test ends it as well: its scope waits for the thread.
impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
    }
}

/// One kubectl for all, which creates each object as it reads it: one process for each would be half of the load.
fn make(cluster: &Cluster, namespace: &str, like: Like, enough: &AtomicBool) -> u32 {
    let mut kubectl = cluster
        .kubectl_command()
        .args(["create", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = kubectl.stdin.take().unwrap();
    // It detects the format from this number of bytes: YAML documents with a separator line.
    writeln!(stdin, "{}", "#".repeat(4096)).unwrap();
    let (mut made, mut done, began) = (0, 0, Instant::now());
    let seconds = env::var(LASTING).map_or(SHORT, |text| text.parse().unwrap());
    let lasts = Duration::from_secs(seconds);
    let goes_on = || began.elapsed() < lasts || !enough.load(Ordering::Relaxed);
    while goes_on() {
        let object = object(&format!("job-{made}"), namespace, like);
        write!(stdin, "{object}\n---\n").unwrap();
        made += 1;
        // Not a wait for a condition: it sets the pace of the load.
        thread::sleep((EVERY * made).saturating_sub(began.elapsed()));
        while made > done + AT_ONCE && goes_on() {
            done = complete(cluster, namespace);
        }
    }
    drop(stdin);
    assert!(kubectl.wait().unwrap().success());
    made
}

/// The number of complete Jobs, cheaply.
fn complete(cluster: &Cluster, namespace: &str) -> u32 {
    let done = ["--field-selector", "status.successful=1", "-o", "name"];
    let get = ["-n", namespace, "get", "jobs"];
    let names = cluster.kubectl(&[&get[..], &done].concat()).unwrap();
    u32::try_from(names.lines().count()).unwrap()
}

fn object(name: &str, namespace: &str, like: Like) -> Value {
    if like == Like::Plain {
        let app = app_container("app", &["--run-for", "200ms"]);
        return job(name, namespace, "Never", &[app]);
    }
    let ready = format!("127.0.0.1:{ENVOY_PORT}/ready");
    let args = ["--get", &ready, "--retry-for", "60s", "--run-for", "200ms"];
    let containers = [app_container("app", &args), envoy_container("envoy")];
    let mut job = job(name, namespace, "Never", &containers);
    job["spec"]["template"]["metadata"]["annotations"]["usher.dev/hold-ports"] =
        json!(format!("envoy={ENVOY_PORT}"));
    job
}

/// Creates one Job.
pub(super) fn create(cluster: &Cluster, namespace: &str, like: Like) {
    cluster.apply(&object("job-0", namespace, like)).unwrap();
}

/// Waits until all Jobs of a namespace are complete, and returns the results of their apps.
pub(super) fn all_complete(lab: &Lab, namespace: &str, made: u32) -> Vec<AppRun> {
    let get = ["-n", namespace, "get", "jobs"];
    until(&format!("{made} complete Jobs in {namespace}"), || {
        let jobs = lab.cluster.kubectl_json(&get).ok()?;
        let jobs = jobs["items"].as_array()?;
        let failed = jobs.iter().filter(|job| is(job, "Failed")).count();
        assert_eq!(failed, 0, "Jobs failed in {namespace}");
        let complete = jobs.iter().filter(|job| is(job, "Complete")).count();
        (complete == made as usize).then_some(())
    });
    let pods = ["-n", namespace, "get", "pods"];
    let pods = lab.cluster.kubectl_json(&pods).unwrap();
    let pods = pods["items"].as_array().unwrap();
    let left = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] != "Succeeded");
    assert_eq!(left.count(), 0, "pods are left in {namespace}");
    let runs = |pod| podlog::runs(&lab.cluster, pod, "app").unwrap();
    pods.iter().flat_map(runs).collect()
}

fn is(job: &Value, condition: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == condition && one["status"] == "True")
    })
}
