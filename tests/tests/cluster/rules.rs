//! Restart rules of containers, with the real kubelet.

use serde_json::{Value, json};
use usher_cluster::workload::{add_shared_directory, app_container, istio_proxy_container, job};

use crate::{
    lab::{self, until},
    workload::{container, exit_code, job_becomes, pod},
};

/// An app that exits with 42 the first time and with 0 the second, with a
/// rule for 42.
fn app(action: &str) -> Value {
    let args = [
        // All other containers have started by then, and the second app of a pod has ended.
        "--await-port",
        "15020",
        "--run-for",
        "700ms",
        "--exit-code",
        "42",
        "--fail-times",
        "1",
        "--state",
        "/state/runs",
    ];
    let mut app = app_container("app", &args);
    app["restartPolicy"] = json!("Never");
    app["restartPolicyRules"] =
        json!([{ "action": action, "exitCodes": { "operator": "In", "values": [42] } }]);
    app
}

fn with_state(containers: &[Value], namespace: &str) -> Value {
    let mut job = job("job", namespace, "Never", containers);
    add_shared_directory(&mut job["spec"]["template"]["spec"], 0, "/state");
    job
}

#[test]
fn restart_rule_restarts_the_app_and_keeps_the_sidecar() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("rule");
    let containers = [app("Restart"), istio_proxy_container()];
    lab.cluster
        .apply(&with_state(&containers, &namespace))
        .unwrap();
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(container(&pod, "app")["restartCount"], 1);
    assert_eq!(container(&pod, "istio-proxy")["restartCount"], 0);
    lab.decided(&namespace, "quit-accepted");
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
}

/// The second app has exited for good when the first one's rule restarts the whole
/// pod, and has to exit again.
#[test]
fn restart_rule_restarts_the_whole_pod() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("rule-all");
    let containers = [
        app("RestartAllContainers"),
        app_container("second", &["--run-for", "100ms"]),
        istio_proxy_container(),
    ];
    lab.cluster
        .apply(&with_state(&containers, &namespace))
        .unwrap();
    let found = job_becomes(&lab, &namespace, "Complete");
    for name in ["app", "second"] {
        assert_eq!(container(&found, name)["restartCount"], 1, "{name}");
        assert_eq!(*exit_code(&found, name), 0, "{name}");
    }
    assert_eq!(*exit_code(&found, "istio-proxy"), 0);
    lab.decided(&namespace, "quit-accepted");
    // The kubelet ended the proxy's first run, without a request.
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
    assert_eq!(lab.count(&namespace, "pod-finished"), 1);
}

/// The kubelet ends such a pod as a whole.
#[test]
fn active_deadline_ends_the_pod() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("deadline");
    let containers = [
        app_container("app", &["--run-for", "600000ms"]),
        istio_proxy_container(),
    ];
    let mut object = job("job", &namespace, "Never", &containers);
    object["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(4);
    lab.cluster.apply(&object).unwrap();
    let found = until("the deadline", || {
        pod(&lab, &namespace).filter(|pod| pod["status"]["phase"] == "Failed")
    });
    assert_eq!(found["status"]["reason"], "DeadlineExceeded");
    job_becomes(&lab, &namespace, "Failed");
}
