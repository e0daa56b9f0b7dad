//! Pods of several apps and a sidecar that is ready when a test says so.
//!
//! Nothing of a mesh is in them: the sidecar is the test application, which listens as soon as a file is there. The apps
//! connect to it at their first instruction. So the moment of readiness is known to the microsecond, and may be the same
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

/// What all pods of a crowd are like.
#[derive(Debug, Clone, Default)]
pub struct Like {
    /// App containers of each pod.
    pub apps: usize,
    pub annotations: Vec<(&'static str, &'static str)>,
    /// Every app's command is wrapped in a loop that asks the sidecar whether it is ready, so often.
    pub wrapper: Option<&'static str>,
}

/// Pods that are there. They and their gates are removed when this is dropped.
#[derive(Debug)]
pub struct Crowd<'cluster> {
    cluster: &'cluster Cluster,
    namespace: String,
    name: String,
    gates: Gates,
    like: Like,
    /// Their names.
    pods: Vec<String>,
    /// As they were made: what their logs are found by. So nothing has to be asked for while a start is measured.
    made: Vec<Value>,
}

/// What became of a pod.
#[derive(Debug, Clone)]
pub struct Ran {
    /// When the sidecar listened.
    pub ready_at: SystemTime,
    pub apps: Vec<Connected>,
}

impl<'cluster> Crowd<'cluster> {
    /// Makes so many pods, named after the crowd, in a namespace that is there.
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

    /// The names of its pods.
    #[must_use]
    pub fn pods(&self) -> &[String] {
        &self.pods
    }

    /// Waits until every container has been started, as the kubelet sees it: a held one has.
    pub fn started(&self) -> Result<()> {
        wait_until(LIMIT, "the start of all containers", || {
            Ok(self.all()?.iter().all(|pod| {
                let statuses = pod["status"]["containerStatuses"].as_array();
                let started = |status: &Value| !status["state"]["waiting"].is_object();
                statuses.is_some_and(|all| !all.is_empty() && all.iter().all(started))
            }))
        })
    }

    /// Lets the sidecar of a pod be ready.
    pub fn open(&self, pod: &str) -> Result<()> {
        self.gates.open(pod)
    }

    /// Waits until all apps have ended, and says how it went.
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

    /// All pods, as the API server has them.
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
