//! Deleted pods: the real Istio sidecar ends when the last app has ended, and not after its own delay.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use usher_cluster::workload::{self, app_container, istio_proxy_container};

use crate::{
    lab::{self, Lab, until},
    workload::container_runs,
};

/// `terminationDrainDuration` of pilot-agent: longer than the usual 5 s, so that a slow node cannot exceed it.
const DRAIN: Duration = Duration::from_secs(15);
/// The limit of the time from the end of the app to the end of the sidecar, by the agent's clock: less than [`DRAIN`]. The rest of
/// a deletion takes as long without usher.
const SOON_MS: f64 = 12_000.0;

/// Istio's sidecar with this drain.
fn draining_proxy() -> Value {
    let mut proxy = istio_proxy_container();
    let environment = proxy["env"].as_array_mut().unwrap();
    let mut variables = environment.iter_mut();
    let variable = variables.find(|one| one["name"] == "PROXY_CONFIG").unwrap();
    let mut config: Value = serde_json::from_str(variable["value"].as_str().unwrap()).unwrap();
    config["terminationDrainDuration"] = json!(format!("{}s", DRAIN.as_secs()));
    variable["value"] = json!(config.to_string());
    proxy
}

/// Deletes a pod of an app and Istio's sidecar, and returns how long `kubectl delete` waits until it is gone.
fn deletion(lab: &Lab, namespace: &str, annotations: &[(&str, &str)]) -> Duration {
    // The app is ready when Envoy's admin port listens, and ends on SIGTERM.
    let args = [
        "--listen",
        "8080",
        "--await-port",
        "15000",
        "--term-code",
        "0",
    ];
    let containers = [app_container("app", &args), draining_proxy()];
    let mut pod = workload::pod("pod", namespace, "Always", &containers);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(30);
    for (key, value) in annotations {
        pod["metadata"]["annotations"][*key] = json!(value);
    }
    lab.cluster.apply(&pod).unwrap();
    container_runs(lab, namespace, "app");
    container_runs(lab, namespace, "istio-proxy");
    let logs = ["-n", namespace, "logs", "pod", "-c", "app"];
    until("Envoy's admin port", || {
        let log = lab.cluster.kubectl(&logs).ok()?;
        log.contains("app-awaited port=15000").then_some(())
    });
    let begun = Instant::now();
    lab.cluster
        .kubectl(&["-n", namespace, "delete", "pod", "pod"])
        .unwrap();
    begun.elapsed()
}

#[test]
fn istio_pod_ends_with_its_app() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let managed = lab.namespace("deleted");
    let managed_took = deletion(&lab, &managed, &[]);
    let quit = lab.decided(&managed, "quit-accepted");
    assert!(
        quit.text("reason").contains("POST :15000/quitquitquit"),
        "{}",
        quit.text("reason")
    );
    let ended = lab.decided(&managed, "sidecar-ended");
    let reason = ended.text("reason");
    assert_eq!(reason, "the sidecar ended as requested, with exit code 0");
    let since_exit = ended.0["since_exit_ms"].as_f64().unwrap();
    assert!(since_exit < SOON_MS, "{since_exit} ms");
    assert_eq!(lab.count(&managed, "quit-on-deletion"), 1);

    let opted_out = lab.namespace("deleted-opted-out");
    let took = deletion(&lab, &opted_out, &[("usher.dev/quit", "false")]);
    eprintln!("deleted in {managed_took:?}, without usher in {took:?}");
    assert!(took > DRAIN, "{took:?}");
    assert_eq!(lab.count(&opted_out, "quit-accepted"), 0);
}

#[test]
fn deleted_pod_is_only_reported_in_observe_mode() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.mode("observe");
    let namespace = lab.namespace("deleted-observed");
    let took = deletion(&lab, &namespace, &[]);
    assert!(took > DRAIN, "{took:?}");
    let would = lab.decided(&namespace, "would-quit-on-deletion");
    assert!(would.text("reason").contains("POST :15000/quitquitquit"));
    assert_eq!(lab.count(&namespace, "quit-accepted"), 0);
}
