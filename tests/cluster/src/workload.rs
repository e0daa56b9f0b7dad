//! Objects that tests create: pods with a test application and real sidecars, as their injectors make them.

use serde_json::{Value, json};

use crate::image::catalog::{APP, ENVOY, ISTIO_PROXY, ISTIO_UID};

/// Where Istio's agent would find its control plane. Nothing is there: the proxy starts, never becomes ready, and
/// ends in the same ways.
const DISCOVERY: &str = "127.0.0.1:15012";

/// A container of the test application; see `usher-test-app` for its arguments.
#[must_use]
pub fn app_container(name: &str, args: &[&str]) -> Value {
    json!({ "name": name, "image": APP, "imagePullPolicy": "Never", "args": args })
}

/// The container that Istio's injector adds, with the real agent and Envoy.
#[must_use]
pub fn istio_proxy_container() -> Value {
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let value = |name: &str, value: &str| json!({ "name": name, "value": value });
    let proxy_config = json!({
        "discoveryAddress": DISCOVERY,
        "concurrency": 2,
        "statusPort": 15020,
    });
    json!({
        "name": "istio-proxy",
        "image": ISTIO_PROXY,
        "imagePullPolicy": "Never",
        "args": [
            "proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local",
            "--proxyLogLevel=warning", "--log_output_level=default:info",
        ],
        "ports": [{ "containerPort": 15090, "protocol": "TCP", "name": "http-envoy-prom" }],
        "env": [
            value("PILOT_CERT_PROVIDER", "istiod"),
            value("CA_ADDR", DISCOVERY),
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("INSTANCE_IP", "status.podIP"),
            field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
            field("HOST_IP", "status.hostIP"),
            value("PROXY_CONFIG", &proxy_config.to_string()),
            value("ISTIO_META_POD_PORTS", "[]"),
            value("ISTIO_META_APP_CONTAINERS", "app"),
            value("ISTIO_META_CLUSTER_ID", "Kubernetes"),
            field("ISTIO_META_NODE_NAME", "spec.nodeName"),
            value("ISTIO_META_INTERCEPTION_MODE", "REDIRECT"),
            value("ISTIO_META_MESH_ID", "cluster.local"),
            value("TRUST_DOMAIN", "cluster.local"),
            // Or the agent waits 2 s for a cloud's metadata server.
            value("CLOUD_PLATFORM", "none"),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "privileged": false,
            "readOnlyRootFilesystem": false,
            "runAsUser": ISTIO_UID,
            "runAsGroup": ISTIO_UID,
            "runAsNonRoot": true,
        },
    })
}

/// The annotations that Istio's injector leaves on a pod with a regular proxy container.
#[must_use]
pub fn istio_annotations() -> Value {
    let status = json!({
        "initContainers": Value::Null,
        "containers": ["istio-proxy"],
        "volumes": Value::Null,
        "imagePullSecrets": Value::Null,
        "revision": "default",
    });
    json!({
        "istio.io/rev": "default",
        "kubectl.kubernetes.io/default-container": "app",
        "kubectl.kubernetes.io/default-logs-container": "app",
        "prometheus.io/path": "/stats/prometheus",
        "prometheus.io/port": "15020",
        "prometheus.io/scrape": "true",
        "sidecar.istio.io/status": status.to_string(),
    })
}

/// A plain Envoy whose admin port is 9901 on loopback.
#[must_use]
pub fn envoy_container(name: &str) -> Value {
    json!({ "name": name, "image": ENVOY, "imagePullPolicy": "Never" })
}

/// Makes a container a native sidecar, to be put among a pod's init containers.
#[must_use]
pub fn native_sidecar(mut container: Value) -> Value {
    container["restartPolicy"] = json!("Always");
    container
}

/// A Job that is tried once. Anything else is changed in the returned object.
#[must_use]
pub fn job(name: &str, namespace: &str, restart_policy: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": { "labels": { "app": name }, "annotations": annotations(containers) },
                "spec": pod_spec(restart_policy, containers),
            },
        },
    })
}

/// A pod that nobody owns.
#[must_use]
pub fn pod(name: &str, namespace: &str, restart_policy: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name }, "annotations": annotations(containers) },
        "spec": pod_spec(restart_policy, containers),
    })
}

/// What the injector annotates a pod with, if it put its container in.
fn annotations(containers: &[Value]) -> Value {
    let injected = |container: &Value| container["name"] == "istio-proxy";
    if containers.iter().any(injected) {
        istio_annotations()
    } else {
        json!({})
    }
}

fn pod_spec(restart_policy: &str, containers: &[Value]) -> Value {
    json!({ "restartPolicy": restart_policy, "terminationGracePeriodSeconds": 2, "containers": containers })
}

/// A volume of the pod's life, mounted at the same path in a container: for `usher-test-app --state`.
pub fn add_shared_directory(pod_spec: &mut Value, container: usize, path: &str) {
    pod_spec["volumes"] = json!([{ "name": "shared", "emptyDir": {} }]);
    pod_spec["containers"][container]["volumeMounts"] =
        json!([{ "name": "shared", "mountPath": path }]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_with_the_proxy_has_the_injectors_annotations() {
        let stuck = job(
            "stuck",
            "default",
            "Never",
            &[app_container("app", &[]), istio_proxy_container()],
        );
        let template = &stuck["spec"]["template"];
        assert!(
            template["metadata"]["annotations"]["sidecar.istio.io/status"]
                .as_str()
                .unwrap()
                .contains("istio-proxy")
        );
        assert_eq!(
            template["spec"]["containers"][1]["securityContext"]["runAsUser"],
            json!(1337)
        );
        let plain = job("plain", "default", "Never", &[app_container("app", &[])]);
        assert_eq!(
            plain["spec"]["template"]["metadata"]["annotations"],
            json!({})
        );
    }

    #[test]
    fn state_directory_is_mounted_in_the_container_that_wants_it() {
        let mut spec = pod_spec(
            "OnFailure",
            &[app_container(
                "app",
                &["--fail-times", "2", "--state", "/state/runs"],
            )],
        );
        add_shared_directory(&mut spec, 0, "/state");
        assert_eq!(
            spec["containers"][0]["volumeMounts"][0]["name"],
            spec["volumes"][0]["name"]
        );
    }
}
