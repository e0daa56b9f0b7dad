//! Pods that are unfinished, or not usher's, stay unchanged.

use serde_json::json;
use usher_cluster::workload::{app_container, istio_annotations, istio_proxy_container};

use crate::{
    lab::{self, until},
    workload::{container, container_ends, job_becomes, meshed_job, pod, sidecar_is_untouched},
};

#[test]
fn crashing_deployment_is_untouched() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("crashing");
    let app = app_container("app", &["--run-for", "200ms", "--exit-code", "1"]);
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "crashing", "namespace": &*namespace },
        "spec": {
            "selector": { "matchLabels": { "app": "crashing" } },
            "template": {
                "metadata": { "labels": { "app": "crashing" }, "annotations": istio_annotations() },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [app, istio_proxy_container()],
                },
            },
        },
    });
    lab.cluster.apply(&deployment).unwrap();
    let pod = until("two restarts", || {
        let pod = pod(&lab, &namespace)?;
        (container(&pod, "app")["restartCount"].as_u64()? >= 2).then_some(pod)
    });
    assert!(sidecar_is_untouched(&pod));
    assert!(lab.decisions(&namespace).is_empty());
    lab.cluster
        .kubectl(&["-n", &namespace, "delete", "deployment", "crashing"])
        .unwrap();
}

#[test]
fn opted_out_pod_is_untouched() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("opted-out");
    let mut job = meshed_job(&namespace, "Never", &["--run-for", "300ms"]);
    job["spec"]["template"]["metadata"]["annotations"]["usher.dev/quit"] = json!("false");
    lab.cluster.apply(&job).unwrap();
    lab.decided(&namespace, "skipped");
    // The proxy still runs after a whole relist of the kubelet.
    let pod = container_ends(&lab, &namespace, "app");
    assert!(sidecar_is_untouched(&pod));
    assert_eq!(lab.decisions(&namespace).len(), 1);
    lab.cluster
        .kubectl(&["-n", &namespace, "delete", "job", "job"])
        .unwrap();
}

#[test]
fn observe_mode_acts_only_after_enforce() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.mode("observe");
    let namespace = lab.namespace("observe");
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &["--run-for", "300ms"]))
        .unwrap();
    let would = lab.decided(&namespace, "would-quit");
    assert!(would.text("reason").contains("POST :15020/quitquitquit"));
    let pod = container_ends(&lab, &namespace, "app");
    assert!(sidecar_is_untouched(&pod));
    assert_eq!(lab.count(&namespace, "quit-accepted"), 0);

    lab.mode("enforce");
    job_becomes(&lab, &namespace, "Complete");
    lab.decided(&namespace, "quit-accepted");
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
}

#[test]
fn off_mode_makes_no_decision() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.mode("off");
    let namespace = lab.namespace("off");
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &["--run-for", "300ms"]))
        .unwrap();
    let pod = container_ends(&lab, &namespace, "app");
    assert!(sidecar_is_untouched(&pod));
    assert!(lab.decisions(&namespace).is_empty());
    lab.cluster
        .kubectl(&["-n", &namespace, "delete", "job", "job"])
        .unwrap();
}
