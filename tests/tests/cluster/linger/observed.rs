//! Observe mode: its counts agree with those of the apps and of their clients.

use std::time::Duration;

use usher_cluster::workload::{self, DAPR_PORT, app_container, dapr_container};

use super::{Deletion, GRACE, LEAST_CALLS, WORK, calls, open_connection, wait_log, with};
use crate::{
    lab::{self, Lab},
    workload::container_runs,
};

/// Longer than the client takes to be deleted and to send its calls.
const SERVES: Duration = Duration::from_secs(30);

/// Runs an app that works on after its SIGTERM. Returns its address.
fn run(lab: &Lab, namespace: &str, args: &[&str], work: Duration) -> String {
    let delay = format!("{}s", work.as_secs());
    let args = [args, &["--term-delay", &delay, "--term-code", "0"]].concat();
    let pod = workload::pod("pod", namespace, "Always", &[app_container("app", &args)]);
    lab.cluster.apply(&with(pod, GRACE, &[])).unwrap();
    let pod = container_runs(lab, namespace, "app");
    format!("{}:8080", pod["status"]["podIP"].as_str().unwrap())
}

#[test]
fn observe_mode_counts_what_apps_and_clients_measure() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.mode("observe");
    let kept = lab.namespace("observed-dapr");
    let called = lab.namespace("observed-called");
    let calling = lab.namespace("observed-calling");
    let dapr = format!("127.0.0.1:{DAPR_PORT}/v1.0/healthz");
    open_connection::run(&lab, &kept, &dapr_container(), &dapr, &[]);
    let address = run(&lab, &called, &["--serve", "8080"], SERVES);
    run(&lab, &calling, &["--call-after-term", &address], WORK);

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

    // The app has one connection to Dapr, which closes it.
    let (_, failed) = calls(&kept_log);
    assert!(failed > 0, "{kept_log}");
    let would = lab.decided(&kept, "would-linger");
    let reason = would.text("reason");
    assert!(
        reason.contains("and 1 connection between containers of the pod was open"),
        "{reason}"
    );
}
