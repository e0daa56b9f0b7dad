//! Jobs and pods of the tests, and their outcomes.

use std::fs;

use serde_json::{Value, json};
use usher_cluster::workload::{add_shared_directory, app_container, istio_proxy_container, job};

use crate::lab::{Lab, until};

/// A Job named `job` with an app and Istio's sidecar.
pub(crate) fn meshed_job(namespace: &str, policy: &str, args: &[&str]) -> Value {
    let containers = [app_container("app", args), istio_proxy_container()];
    job("job", namespace, policy, &containers)
}

/// The directory of a gate in its container, and its file.
const GATE: [&str; 2] = ["/gate", "open"];

/// Makes the first container of a pod wait for [`open_gate`], so that a test does not depend on the speed of the node.
pub(crate) fn add_gate(pod_spec: &mut Value) {
    add_shared_directory(pod_spec, 0, GATE[0]);
    let args = pod_spec["containers"][0]["args"].as_array_mut().unwrap();
    args.extend([json!("--await-file"), json!(GATE.join("/"))]);
}

/// Lets the app of a pod continue. The API server is not needed.
pub(crate) fn open_gate(lab: &Lab, pod: &Value) {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let volume = format!("var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/shared");
    let directory = lab.cluster.node_root().unwrap().join(volume);
    fs::write(directory.join(GATE[1]), "").unwrap();
}

/// The pods of a namespace.
pub(crate) fn pods(lab: &Lab, namespace: &str) -> Vec<Value> {
    let mut pods = lab
        .cluster
        .kubectl_json(&["-n", namespace, "get", "pods"])
        .unwrap();
    serde_json::from_value(pods["items"].take()).unwrap()
}

/// The only pod of a namespace.
pub(crate) fn pod(lab: &Lab, namespace: &str) -> Option<Value> {
    let pods = lab
        .cluster
        .kubectl_json(&["-n", namespace, "get", "pods"])
        .ok()?;
    pods["items"].as_array()?.first().cloned()
}

/// Waits until the Job has this condition, and returns its pod.
pub(crate) fn job_becomes(lab: &Lab, namespace: &str, condition: &str) -> Value {
    until(&format!("the Job in {namespace} to be {condition}"), || {
        let job = lab
            .cluster
            .kubectl_json(&["-n", namespace, "get", "job", "job"])
            .ok()?;
        let conditions = job["status"]["conditions"].as_array()?;
        let found = conditions
            .iter()
            .any(|one| one["type"] == condition && one["status"] == "True");
        found.then_some(())
    });
    pod(lab, namespace).unwrap()
}

pub(crate) fn container<'pod>(pod: &'pod Value, name: &str) -> &'pod Value {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let statuses = statuses.map(Vec::as_slice).unwrap_or_default();
    let found = statuses.iter().find(|status| status["name"] == name);
    found.unwrap_or(&Value::Null)
}

/// The number of runs of a container.
pub(crate) fn runs(pod: &Value, name: &str) -> usize {
    let again = container(pod, name)["restartCount"].as_u64();
    1 + usize::try_from(again.unwrap_or_default()).unwrap()
}

/// Exit code of a container's newest run; null while it runs.
pub(crate) fn exit_code<'pod>(pod: &'pod Value, name: &str) -> &'pod Value {
    &container(pod, name)["state"]["terminated"]["exitCode"]
}

/// Waits until the API reports the exit of a container's newest run.
pub(crate) fn container_ends(lab: &Lab, namespace: &str, name: &str) -> Value {
    until(&format!("the end of {name} in {namespace}"), || {
        pod(lab, namespace).filter(|pod| exit_code(pod, name).is_number())
    })
}

/// Waits until the API reports a container as running.
pub(crate) fn container_runs(lab: &Lab, namespace: &str, name: &str) -> Value {
    until(&format!("{name} in {namespace} to run"), || {
        pod(lab, namespace).filter(|pod| container(pod, name)["state"]["running"].is_object())
    })
}

/// Whether the Istio sidecar of a pod is in its first run.
pub(crate) fn sidecar_is_untouched(pod: &Value) -> bool {
    is_untouched(pod, "istio-proxy")
}

/// Whether a container is in its first run.
pub(crate) fn is_untouched(pod: &Value, name: &str) -> bool {
    let status = container(pod, name);
    status["state"]["running"].is_object() && status["restartCount"] == 0
}
