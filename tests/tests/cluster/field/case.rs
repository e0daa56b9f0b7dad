//! A case in the format of its file, and its object in Kubernetes.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use usher_cluster::{
    image::catalog::APP,
    workload::{job, pod},
};

/// Directories of the node with a shell and its programs, which the test application's image lacks.
const SHELL: [&str; 4] = ["bin", "lib", "lib64", "usr"];

/// Longer than a slow node takes to start all sidecars after their apps; the usual deadline is 30 s. A hold that waits for
/// another condition than its sidecar is observed long before.
const HOLD_DEADLINE: (&str, &str) = ("usher.dev/hold-deadline", "5m");

/// A pod. A container with `does` is a stand-in with the real image name and arguments, and this behaviour (`STAND_IN`
/// of `usher-test-app`). A container with `shell` has the shell of the node. A container without an image is the test
/// application.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Case {
    pub(super) case: String,
    pub(super) source: String,
    #[serde(default)]
    pub(super) kind: Kind,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    annotations: Map<String, Value>,
    /// Fields of the pod's spec.
    #[serde(default)]
    pod: Map<String, Value>,
    /// Fields of the Job's spec.
    #[serde(default)]
    job: Map<String, Value>,
    #[serde(default)]
    init: Vec<Map<String, Value>>,
    containers: Vec<Map<String, Value>>,
    #[serde(default)]
    pub(super) acts: Vec<Act>,
    /// Decisions that usher makes once about the pod.
    #[serde(default)]
    pub(super) reported_once: Vec<String>,
    /// Decisions that usher must not make about the pod.
    #[serde(default)]
    pub(super) unreported: Vec<String>,
    /// A part of the reason of its hold's release.
    #[serde(default)]
    pub(super) released: Option<String>,
    pub(super) wanted: Wanted,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    #[default]
    Job,
    CronJob,
    Pod,
}

/// The acts on a pod, one after the other.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Act {
    /// Waits until the kubelet has started the container `main`, and usher holds its connections.
    Held,
    /// Waits until the connection of `main` to this port has succeeded.
    Connected(u16),
    /// Waits until this container has ended and no other one, 3 s ago.
    Ended(String),
    /// Sends a signal to the first process of a container by its own shell.
    Kill {
        container: String,
        signal: u8,
    },
    Suspend,
    Resume,
    Delete,
    /// Waits until the pod does not exist any more.
    Gone,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wanted {
    /// Its Job is complete, or the pod has succeeded, and these sidecars ended in this order.
    Completes(Vec<String>),
    /// The connection of `main` succeeds soon after the port has a listener.
    Connects(u16),
    /// The first instruction of `main` comes soon after the last listener of its sidecars.
    Starts,
    /// `usher explain` reports these findings and no others, with these words. A pod without findings is healthy.
    Explained {
        findings: Vec<String>,
        words: Vec<String>,
    },
    /// The indexes of an Indexed Job.
    Indexes { completed: String, failed: String },
    /// The pod does not exist any more.
    Gone,
}

/// A container in the format of the API: a stand-in, or the test application.
fn container(fields: &Map<String, Value>) -> Value {
    let mut container = fields.clone();
    let does = container.remove("does");
    let shell = container.remove("shell");
    container.entry("image").or_insert_with(|| json!(APP));
    container.insert("imagePullPolicy".to_owned(), json!("Never"));
    if let Some(does) = does {
        let variables = container.entry("env").or_insert_with(|| json!([]));
        let stand_in = json!({"name": "STAND_IN", "value": does});
        variables.as_array_mut().unwrap().push(stand_in);
    }
    if shell.is_some() {
        let mounts = SHELL
            .map(|name| json!({"name": name, "mountPath": format!("/{name}"), "readOnly": true}));
        container.insert("volumeMounts".to_owned(), json!(mounts));
    }
    Value::Object(container)
}

impl Case {
    fn containers(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.init.iter().chain(&self.containers)
    }

    /// The images of its stand-ins.
    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        self.containers()
            .filter(|container| {
                ["does", "shell"]
                    .iter()
                    .any(|key| container.contains_key(*key))
            })
            .filter_map(|container| container.get("image")?.as_str())
    }

    pub(super) fn is_explained(&self) -> bool {
        matches!(self.wanted, Wanted::Explained { .. })
    }

    /// The object to create: a pod, a Job, or a suspended CronJob.
    pub(super) fn object(&self, namespace: &str) -> Value {
        let containers: Vec<Value> = self.containers.iter().map(container).collect();
        let policy = self.policy.as_deref().unwrap_or("Never");
        if self.kind == Kind::Pod {
            let mut pod = pod(&self.case, namespace, policy, &containers);
            self.complete(&mut pod);
            return pod;
        }
        let mut job = job(&self.case, namespace, policy, &containers);
        self.complete(&mut job["spec"]["template"]);
        for (key, value) in &self.job {
            job["spec"][key] = value.clone();
        }
        if self.kind == Kind::Job {
            return job;
        }
        json!({
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": job["metadata"],
            "spec": { "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": { "spec": job["spec"] } },
        })
    }

    fn complete(&self, pod: &mut Value) {
        if matches!(self.wanted, Wanted::Connects(_)) {
            let (key, value) = HOLD_DEADLINE;
            pod["metadata"]["annotations"][key] = json!(value);
        }
        for (key, value) in &self.annotations {
            pod["metadata"]["annotations"][key] = value.clone();
        }
        let init: Vec<Value> = self.init.iter().map(container).collect();
        pod["spec"]["initContainers"] = json!(init);
        if self.containers().any(|one| one.contains_key("shell")) {
            let volumes =
                SHELL.map(|name| json!({"name": name, "hostPath": {"path": format!("/{name}")}}));
            pod["spec"]["volumes"] = json!(volumes);
        }
        for (key, value) in &self.pod {
            pod["spec"][key] = value.clone();
        }
    }
}
