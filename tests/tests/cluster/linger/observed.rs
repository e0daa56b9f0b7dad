//! Observe mode: its counts agree with those of the apps and of their clients.

use std::time::Duration;

use serde_json::{Value, json};
use usher_cluster::{
    mesh::PEER,
    workload::{self, app_container},
};

use super::{Deletion, GRACE, LEAST_CALLS, WORK, calls, wait_log, with};
use crate::{
    lab::{self, Lab},
    workload::container_runs,
};

/// Longer than the client takes to be deleted and to send its calls, and than the sidecar drains.
const SERVES: Duration = Duration::from_secs(30);

/// A pod of an app that works on after its SIGTERM.
fn pod(namespace: &str, args: &[&str], work: Duration) -> Value {
    let delay = format!("{}s", work.as_secs());
    let args = [args, &["--term-delay", &delay, "--term-code", "0"]].concat();
    let pod = workload::pod("pod", namespace, "Always", &[app_container("app", &args)]);
    with(pod, GRACE, &[])
}

/// Creates the pod. Returns its address when the app runs.
fn run(lab: &Lab, namespace: &str, pod: &Value) -> String {
    lab.cluster.apply(pod).unwrap();
    let pod = container_runs(lab, namespace, "app");
    format!("{}:8080", pod["status"]["podIP"].as_str().unwrap())
}

/// A pod with Istio's sidecar, of which the app has one open connection into the mesh.
fn run_meshed(lab: &Lab, namespace: &str) {
    let mut pod = pod(namespace, &["--keep-after-term", PEER], SERVES);
    pod["metadata"]["labels"]["sidecar.istio.io/inject"] = json!("true");
    pod["metadata"]["annotations"] = json!({ "sidecar.istio.io/nativeSidecar": "false" });
    run(lab, namespace, &pod);
    wait_log(lab, namespace, "app-kept");
}

#[test]
fn observe_mode_counts_what_apps_and_clients_measure() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.mode("observe");
    let kept = lab.namespace("observed-kept");
    let called = lab.namespace("observed-called");
    let calling = lab.namespace("observed-calling");
    run_meshed(&lab, &kept);
    let address = run(&lab, &called, &pod(&called, &["--serve", "8080"], SERVES));
    let calls_it = pod(&calling, &["--call-after-term", &address], WORK);
    run(&lab, &calling, &calls_it);

    let kept_ends = Deletion::begin(&lab, &kept);
    let server = Deletion::begin(&lab, &called);
    // All calls are made after the stop signal of the server.
    wait_log(&lab, &called, "app-term");
    let client = Deletion::begin(&lab, &calling);
    let [(_, log), (_, kept_log), _] = [client, kept_ends, server].map(Deletion::end);

    let (sent, failed) = calls(&log);
    assert_eq!(failed, 0, "{log}");
    assert!(sent >= LEAST_CALLS, "{log}");
    let would = lab.decided(&called, "would-pre-stop");
    let reason = would.text("reason");
    let counted = reason
        .split(' ')
        .find_map(|word| word.parse::<u32>().ok())
        .unwrap();
    eprintln!("connections after the stop signal: {counted} counted, {sent} made");
    // The first sample follows the signal; the client may be faster on a slow node.
    let least = sent * 8 / 10;
    assert!((least..=sent).contains(&counted), "{reason}: {log}");

    // The sidecar ends before its app, and cuts the app's only connection.
    let (_, failed) = calls(&kept_log);
    assert!(failed > 0, "{kept_log}");
    let would = lab.decided(&kept, "would-linger");
    let reason = would.text("reason");
    assert!(
        reason.contains("and 1 connection between containers of the pod was open"),
        "{reason}"
    );
}
