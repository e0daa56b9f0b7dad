//! A Cloud SQL proxy that can only exit with code 143: whether that is permitted depends on its effect on the pod.

use serde_json::{Value, json};
use usher_cluster::workload::{SQL_PORT, app_container, cloud_sql_proxy_container, job};

use super::since_exit;
use crate::{
    lab::{self, Lab, Line, SOON},
    workload::{container_ends, exit_code, is_untouched, job_becomes},
};

const PROXY: &str = "cloud-sql-proxy";
/// The code that a shell, and this proxy, report after SIGTERM.
const TERMINATED: i64 = 143;

/// A Job named `job` with a proxy that has neither of the flags for exit code 0.
fn plain_job(namespace: &str, policy: &str, exit_code: &str) -> Value {
    let port = SQL_PORT.to_string();
    let app = app_container(
        "app",
        &[
            "--await-port",
            &port,
            "--run-for",
            "300ms",
            "--exit-code",
            exit_code,
        ],
    );
    job(
        "job",
        namespace,
        policy,
        &[app, cloud_sql_proxy_container(&[])],
    )
}

/// The proxy is untouched, which was reported at once: the agent did not wait for a port that is never opened.
fn is_given_up(lab: &Lab, namespace: &str) -> Line {
    let gave_up = lab.decided(namespace, "gave-up");
    let since = since_exit(&gave_up);
    assert!(
        since < SOON.as_secs_f64() * 1000.0,
        "given up after {since} ms"
    );
    // The proxy still runs after one relist of the kubelet.
    let pod = container_ends(lab, namespace, "app");
    assert_eq!(*exit_code(&pod, "app"), 0);
    assert!(is_untouched(&pod, PROXY), "{pod}");
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(lab.count(namespace, "quit-accepted"), 0);
    assert_eq!(lab.count(namespace, "gave-up"), 1);
    lab.cluster
        .kubectl(&["-n", namespace, "delete", "job", "job"])
        .unwrap();
    gave_up
}

#[test]
fn successful_pod_is_not_failed() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("sql-never");
    lab.cluster
        .apply(&plain_job(&namespace, "Never", "0"))
        .unwrap();
    let gave_up = is_given_up(&lab, &namespace);
    let reason = gave_up.text("reason");
    for part in [
        "exit code 143",
        "--exit-zero-on-sigterm",
        "usher.dev/allow-pod-failure",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn annotation_permits_to_fail_a_successful_pod() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("sql-failure");
    let mut job = plain_job(&namespace, "Never", "0");
    job["spec"]["template"]["metadata"]["annotations"]["usher.dev/allow-pod-failure"] =
        json!("true");
    lab.cluster.apply(&job).unwrap();
    let pod = job_becomes(&lab, &namespace, "Failed");
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(*exit_code(&pod, PROXY), TERMINATED);
    assert_eq!(*exit_code(&pod, "app"), 0);
    lab.decided(&namespace, "sidecar-ended");
}

#[test]
fn failed_pod_is_quit_with_any_exit_code() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("sql-failed");
    lab.cluster
        .apply(&plain_job(&namespace, "Never", "3"))
        .unwrap();
    let pod = job_becomes(&lab, &namespace, "Failed");
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(*exit_code(&pod, PROXY), TERMINATED);
    assert_eq!(*exit_code(&pod, "app"), 3);
    lab.decided(&namespace, "sidecar-ended");
}

#[test]
fn sidecar_stays_under_on_failure() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("sql-on-failure");
    lab.cluster
        .apply(&plain_job(&namespace, "OnFailure", "0"))
        .unwrap();
    is_given_up(&lab, &namespace);
}
