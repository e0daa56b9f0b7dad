//! Pods with several apps and a sidecar that becomes ready when the test requests it.
//!
//! They contain nothing of a mesh: the sidecar is the test application, which listens as soon as a file exists. The apps
//! connect to it at their first instruction. So the time of readiness is known to the microsecond, and can be the same
//! for a hundred containers.

mod gate;
mod object;

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde_json::Value;

use self::gate::Gates;
use crate::{
    Cluster,
    node::process::wait_until,
    podlog::{self, Connected},
};

/// Longer than the pods of a crowd take to start or to end on a loaded machine.
const LIMIT: Duration = Duration::from_secs(600);
/// The sidecar's port on loopback.
pub const PORT: u16 = 9000;
const SIDECAR: &str = "sidecar";

/// The common properties of a crowd's pods.
#[derive(Debug, Clone, Default)]
pub struct Like {
    /// App containers of each pod.
    pub apps: usize,
    pub annotations: Vec<(&'static str, &'static str)>,
    /// A loop around every app's command polls the sidecar's readiness at this interval.
    pub wrapper: Option<&'static str>,
}

/// Existing pods. On drop they and their gates are removed.
#[derive(Debug)]
pub struct Crowd<'cluster> {
    cluster: &'cluster Cluster,
    namespace: String,
    name: String,
    gates: Gates,
    like: Like,
    /// Their names.
    pods: Vec<String>,
    /// The created objects, which identify their logs. So there is no request while a start is measured.
    made: Vec<Value>,
}

/// The outcome of a pod.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The time at which the sidecar listened.
    pub ready_at: SystemTime,
    pub apps: Vec<Connected>,
}

impl<'cluster> Crowd<'cluster> {
    /// Creates this number of pods with the crowd's name, in an existing namespace.
    pub fn make(
        cluster: &'cluster Cluster,
        namespace: &str,
        name: &str,
        size: usize,
        like: &Like,
    ) -> Result<Self> {
        let mut crowd = Self {
            cluster,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            gates: Gates::make(cluster, &format!("{namespace}-{name}"))?,
            like: like.clone(),
            pods: (0..size).map(|number| format!("{name}-{number}")).collect(),
            made: Vec::new(),
        };
        let pods: Vec<Value> = crowd.pods.iter().map(|pod| crowd.object(pod)).collect();
        cluster.apply(&serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": pods }))?;
        crowd.made = crowd.all()?;
        Ok(crowd)
    }

    #[must_use]
    pub fn pods(&self) -> &[String] {
        &self.pods
    }

    /// Waits until the kubelet reports every container as started, held ones included.
    pub fn started(&self) -> Result<()> {
        wait_until(LIMIT, "the start of all containers", || {
            Ok(self.all()?.iter().all(|pod| {
                let statuses = pod["status"]["containerStatuses"].as_array();
                let started = |status: &Value| !status["state"]["waiting"].is_object();
                statuses.is_some_and(|all| !all.is_empty() && all.iter().all(started))
            }))
        })
    }

    /// Makes the sidecar of a pod ready.
    pub fn open(&self, pod: &str) -> Result<()> {
        self.gates.open(pod)
    }

    /// Waits until all apps have ended, and returns the outcomes.
    pub fn ended(&self) -> Result<Vec<Ran>> {
        self.made.iter().map(|pod| self.pod_ended(pod)).collect()
    }

    /// The same for one pod.
    pub fn one_ended(&self, pod: &str) -> Result<Ran> {
        let mut made = self.made.iter();
        let found = made.find(|made| made["metadata"]["name"] == pod);
        self.pod_ended(found.with_context(|| format!("{pod} is not one of them"))?)
    }

    fn pod_ended(&self, pod: &Value) -> Result<Ran> {
        let (mut ready_at, mut apps) = (None, Vec::new());
        wait_until(LIMIT, "the end of the apps", || {
            ready_at = podlog::listened_at(self.cluster, pod, SIDECAR)?;
            let names = (0..self.like.apps).map(app_name);
            let ended = names.map(|app| podlog::connected(self.cluster, pod, &app));
            apps = ended.collect::<Result<Vec<_>>>()?;
            Ok(ready_at.is_some() && apps.iter().all(Option::is_some))
        })?;
        Ok(Ran {
            ready_at: ready_at.context("the sidecar did not listen")?,
            apps: apps.into_iter().flatten().collect(),
        })
    }

    /// All pods, from the API server.
    fn all(&self) -> Result<Vec<Value>> {
        let selector = format!("app={}", self.name);
        let list = ["-n", &self.namespace, "get", "pods", "-l", &selector];
        let pods = self.cluster.kubectl_json(&list)?;
        let pods = pods["items"].as_array().cloned();
        pods.context("the API server lists no pods")
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        let selector = format!("app={}", self.name);
        let which = ["-n", &self.namespace, "delete", "pods", "-l", &selector];
        let how = ["--grace-period=1", "--timeout=120s"];
        // The cluster may be gone.
        self.cluster.kubectl(&[&which[..], &how].concat()).ok();
    }
}

fn app_name(number: usize) -> String {
    format!("app-{number}")
}
