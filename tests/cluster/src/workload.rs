//! The objects of tests: pods with a test application and real sidecars, as their injectors create them.

mod sidecar;

use serde_json::{Map, Value, json};

pub use self::sidecar::{
    DAPR_PORT, ENVOY_PORT, ISTIO_STATUS_PORT, SQL_PORT, cloud_sql_proxy_container,
    dapr_annotations, dapr_container, envoy_container, istio_annotations, istio_proxy_container,
};
use crate::image::catalog::APP;

/// A container of the test application; see `usher-test-app` for its arguments.
#[must_use]
pub fn app_container(name: &str, args: &[&str]) -> Value {
    json!({ "name": name, "image": APP, "imagePullPolicy": "Never", "args": args })
}

/// Makes a container a native sidecar, for a pod's init containers.
#[must_use]
pub fn native_sidecar(mut container: Value) -> Value {
    container["restartPolicy"] = json!("Always");
    container
}

/// A Job without retries. Tests change other fields in the returned object.
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

/// A pod without an owner.
#[must_use]
pub fn pod(name: &str, namespace: &str, restart_policy: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name }, "annotations": annotations(containers) },
        "spec": pod_spec(restart_policy, containers),
    })
}

/// The annotations that the injectors of these containers add to a pod.
fn annotations(containers: &[Value]) -> Value {
    let injected = |name: &str| containers.iter().any(|container| container["name"] == name);
    let mut annotations = Map::new();
    for (name, left) in [
        ("istio-proxy", istio_annotations as fn() -> Value),
        ("daprd", dapr_annotations),
    ] {
        if let (true, Value::Object(left)) = (injected(name), left()) {
            annotations.extend(left);
        }
    }
    annotations.into()
}

fn pod_spec(restart_policy: &str, containers: &[Value]) -> Value {
    json!({ "restartPolicy": restart_policy, "terminationGracePeriodSeconds": 2, "containers": containers })
}

/// A volume with the pod's lifetime, mounted at the same path in a container: for `usher-test-app --state`.
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
    fn pod_has_the_annotations_of_every_injector() {
        let containers = [dapr_container(), istio_proxy_container()];
        let pod = pod("both", "default", "Never", &containers);
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(annotations["dapr.io/enabled"], "true");
        assert_eq!(annotations["istio.io/rev"], "default");
    }

    #[test]
    fn state_directory_is_mounted_in_the_container_that_uses_it() {
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
