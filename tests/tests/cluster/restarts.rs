//! A restart of the agent or the kubelet loses nothing.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use usher_cluster::{Component, Signal};

use crate::{
    lab::{self, until},
    workload::{
        add_gate, container_ends, container_runs, exit_code, job_becomes, meshed_job, open_gate,
        sidecar_is_untouched,
    },
};

/// The limit of a new agent's first quit, which follows a list of pods and a read of the Namespace.
const FIRST_QUIT: Duration = Duration::from_secs(30);

/// A Job with an app that runs until its gate is open: a slow kubelet reports seconds later that it runs.
fn gated_job(namespace: &str) -> Value {
    let mut job = meshed_job(namespace, "Never", &["--run-for", "300ms"]);
    add_gate(&mut job["spec"]["template"]["spec"]);
    job
}

#[test]
fn late_agent_quits_at_once() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.remove_agent();
    let namespace = lab.namespace("absent");
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &["--run-for", "300ms"]))
        .unwrap();
    let pod = container_ends(&lab, &namespace, "app");
    assert!(sidecar_is_untouched(&pod));
    lab.deploy();
    let accepted = lab.decided(&namespace, "quit-accepted");
    let log = lab.log();
    let started = log
        .iter()
        .rfind(|line| line.text("message") == "watching pods")
        .unwrap();
    let took = time_of(accepted.text("timestamp")) - time_of(started.text("timestamp"));
    assert!(took < FIRST_QUIT, "quit {took:?} after the start");
    job_becomes(&lab, &namespace, "Complete");
}

#[test]
fn killed_agent_restarts_and_quits() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let namespace = lab.namespace("killed");
    lab.cluster.apply(&gated_job(&namespace)).unwrap();
    let pod = container_runs(&lab, &namespace, "istio-proxy");
    let killed = lab.agent_pids();
    for pid in &killed {
        lab.cluster.in_node(&["kill", "-KILL", pid]).unwrap();
    }
    until("another agent", || {
        let pids = lab.agent_pids();
        (!pids.is_empty() && pids.iter().all(|pid| !killed.contains(pid))).then_some(())
    });
    open_gate(&lab, &pod);
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(*exit_code(&pod, "istio-proxy"), 0);
    lab.decided(&namespace, "quit-accepted");
    // The mode came from the run directory or the API server: enforce.
    assert_eq!(lab.count(&namespace, "quit-accepted"), 1);
}

#[test]
fn exits_are_detected_without_the_kubelet() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let namespace = lab.namespace("no-kubelet");
    lab.cluster.apply(&gated_job(&namespace)).unwrap();
    let pod = container_runs(&lab, &namespace, "istio-proxy");
    until("the agent to know the pod", || {
        let holds = lab.holds(&namespace);
        let mut decisions = holds.iter().map(|line| line.text("decision"));
        decisions
            .any(|decision| decision == "hold-armed")
            .then_some(())
    });
    lab.cluster
        .stop(Component::Kubelet, Signal::SIGKILL)
        .unwrap();
    open_gate(&lab, &pod);
    lab.decided(&namespace, "sidecar-ended");
    assert!(!lab.cluster.runs(Component::Kubelet));
    lab.cluster.start(Component::Kubelet).unwrap();
    job_becomes(&lab, &namespace, "Complete");
    until("the agent to be ready again", || {
        let ready = [
            "-n",
            lab::USHER,
            "rollout",
            "status",
            "daemonset/usher",
            "--timeout=1s",
        ];
        lab.cluster.kubectl(&ready).ok()
    });
}

/// The time of a timestamp, since 1970.
pub(crate) fn time_of(timestamp: &str) -> Duration {
    let time: Timestamp = timestamp.parse().unwrap();
    time.as_duration().unsigned_abs()
}
