//! Finished Jobs complete.

use serde_json::json;
use usher_cluster::workload::{
    add_shared_directory, app_container, envoy_container, istio_proxy_container, job,
    native_sidecar,
};

use crate::{
    lab::{self, SOON},
    workload::{container, exit_code, job_becomes, meshed_job},
};

/// An app that exits some time after the status port of Istio's sidecar listens: before that, the sidecar may need a second
/// request.
const OUTLASTS_START: [&str; 4] = ["--await-port", "15020", "--run-for", "1s"];

/// On a busy node the agent may observe an exit when the sidecar has started. It is not late each time.
const TRIES: usize = 3;

#[test]
fn never_with_code_0_completes() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("never-0");
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &OUTLASTS_START))
        .unwrap();
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert_eq!(*exit_code(&pod, "istio-proxy"), 0);
    lab.decided(&namespace, "sidecar-ended");
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
}

#[test]
fn never_with_code_3_fails_with_that_code() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("never-3");
    let args = ["--run-for", "500ms", "--exit-code", "3"];
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &args))
        .unwrap();
    let pod = job_becomes(&lab, &namespace, "Failed");
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(*exit_code(&pod, "app"), 3);
    assert_eq!(*exit_code(&pod, "istio-proxy"), 0);
}

#[test]
fn on_failure_is_quit_once_after_the_last_run() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("on-failure");
    let args = [
        "--run-for",
        "300ms",
        "--exit-code",
        "1",
        "--fail-times",
        "2",
        "--state",
        "/state/runs",
    ];
    let mut job = meshed_job(&namespace, "OnFailure", &args);
    job["spec"]["backoffLimit"] = json!(6);
    add_shared_directory(&mut job["spec"]["template"]["spec"], 0, "/state");
    lab.cluster.apply(&job).unwrap();
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(container(&pod, "app")["restartCount"], 2);
    assert_eq!(container(&pod, "istio-proxy")["restartCount"], 0);
    assert_eq!(*exit_code(&pod, "istio-proxy"), 0);
    // The agent reports the end by itself, and may do so after the kubelet.
    lab.decided(&namespace, "sidecar-ended");
    let decisions = lab.decisions(&namespace);
    let kinds: Vec<_> = decisions.iter().map(|line| line.text("decision")).collect();
    assert_eq!(kinds, ["pod-finished", "quit-accepted", "sidecar-ended"]);
}

#[test]
fn two_apps_are_quit_once_after_the_second() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("two-apps");
    let containers = [
        app_container("first", &["--run-for", "300ms"]),
        app_container("second", &OUTLASTS_START),
        istio_proxy_container(),
    ];
    lab.cluster
        .apply(&job("job", &namespace, "Never", &containers))
        .unwrap();
    job_becomes(&lab, &namespace, "Complete");
    lab.decided(&namespace, "sidecar-ended");
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
    let decisions = lab.decisions(&namespace);
    let since = decisions[0].0["since_exit_ms"].as_f64().unwrap();
    assert!(
        since < SOON.as_secs_f64() * 1000.0,
        "decided at the second's end, not later: {since} ms"
    );
}

#[test]
fn app_exits_at_once_or_before_its_sidecar_exists() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let reason_of_one = || {
        let namespace = lab.namespace("at-once");
        // Containers start in the order of the spec, each after the one before.
        lab.cluster
            .apply(&meshed_job(&namespace, "Never", &["--run-for", "0ms"]))
            .unwrap();
        job_becomes(&lab, &namespace, "Complete");
        let finished = lab.decided(&namespace, "pod-finished");
        finished.text("reason").to_owned()
    };
    let mut reasons = (0..TRIES).map(|_try| reason_of_one());
    assert!(
        reasons.any(|reason| reason.contains("no sidecar runs yet")),
        "late in each try"
    );
}

#[test]
fn app_exits_within_5_ms_of_its_sidecar_start() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("short");
    let containers = [
        istio_proxy_container(),
        app_container("app", &["--run-for", "2ms"]),
    ];
    lab.cluster
        .apply(&job("job", &namespace, "Never", &containers))
        .unwrap();
    job_becomes(&lab, &namespace, "Complete");
    lab.decided(&namespace, "sidecar-ended");
    // The handler of pilot-agent can panic during the start; then the request is repeated.
    assert!(lab.count(&namespace, "quit-accepted") >= 1);
    assert_eq!(lab.count(&namespace, "step-failed"), 0);
}

/// Only pilot-agent, as in Istio's `grpc-agent` template: its own `/quitquitquit` panics.
#[test]
fn proxyless_grpc_is_quit_without_delay() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("proxyless");
    let mut proxy = istio_proxy_container();
    let environment = proxy["env"].as_array_mut().unwrap();
    environment.push(json!({ "name": "DISABLE_ENVOY", "value": "true" }));
    let containers = [proxy, app_container("app", &OUTLASTS_START)];
    lab.cluster
        .apply(&job("job", &namespace, "Never", &containers))
        .unwrap();
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(*exit_code(&pod, "istio-proxy"), 0);
    lab.decided(&namespace, "sidecar-ended");
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
    assert_eq!(lab.count(&namespace, "step-failed"), 0);
}

#[test]
fn plain_envoy_is_quit() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("envoy");
    let containers = [
        app_container("app", &["--run-for", "1000ms"]),
        envoy_container("envoy"),
    ];
    lab.cluster
        .apply(&job("job", &namespace, "Never", &containers))
        .unwrap();
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(*exit_code(&pod, "envoy"), 0);
}

#[test]
fn shared_pid_namespace_makes_no_difference() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("shared-pids");
    let mut job = meshed_job(&namespace, "Never", &OUTLASTS_START);
    job["spec"]["template"]["spec"]["shareProcessNamespace"] = json!(true);
    lab.cluster.apply(&job).unwrap();
    job_becomes(&lab, &namespace, "Complete");
    lab.decided(&namespace, "sidecar-ended");
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
}

#[test]
fn kubelet_terminates_native_sidecars() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("native");
    let mut job = job(
        "job",
        &namespace,
        "Never",
        &[app_container("app", &["--run-for", "500ms"])],
    );
    let sidecar = native_sidecar(istio_proxy_container());
    job["spec"]["template"]["spec"]["initContainers"] = json!([sidecar]);
    lab.cluster.apply(&job).unwrap();
    job_becomes(&lab, &namespace, "Complete");
    assert!(lab.decisions(&namespace).is_empty());
}
