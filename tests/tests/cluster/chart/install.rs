//! The first day: installed, with exactly the documented permissions; in observe mode; enabled for one node.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use usher_cluster::{Cluster, programs::Kubernetes};

use super::release::Release;
use crate::{
    lab::{self, Lab, SOON, USHER, until},
    restarts::time_of,
    workload::{container_ends, exit_code, job_becomes, meshed_job, sidecar_is_untouched},
};

const ACCOUNT: &str = "system:serviceaccount:usher:usher";
/// An account without additional permissions.
const ANYBODY: &str = "system:serviceaccount:default:without-permissions";
/// Resource, verbs.
const RIGHTS: [&str; 5] = [
    "daemonsets.apps [usher] [get]",
    "events.events.k8s.io [create patch]",
    "namespaces [get]",
    "nodes [get watch]",
    "nodes/pods [get]",
];
/// Kubelets before 1.33 have no narrower permission for their list of pods.
const PROXY_RIGHT: &str = "nodes/proxy [get]";
/// The capabilities of the agent's process, as the kernel numbers them: KILL, NET_ADMIN, NET_RAW, SYS_PTRACE, SYS_ADMIN.
const CAPABILITIES: u64 = 1 << 5 | 1 << 12 | 1 << 13 | 1 << 19 | 1 << 21;
/// SYS_NICE, which is used once and dropped.
const AT_START: u64 = 1 << 23;

#[test]
fn stuck_job_is_reported_in_observe_mode_and_completes_after_enforce() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let _release = Release::install(&lab, &[]);
    rights(&lab.cluster);
    capabilities(&lab);
    let namespace = lab.namespace("observed");
    lab.cluster
        .apply(&meshed_job(&namespace, "Never", &["--run-for", "300ms"]))
        .unwrap();
    lab.decided(&namespace, "would-quit");
    let pod = container_ends(&lab, &namespace, "app");
    assert!(sidecar_is_untouched(&pod));

    let (before, after) = annotate(&lab, "usher.dev/mode=enforce");
    let ended = time_of(lab.decided(&namespace, "sidecar-ended").text("timestamp"));
    let took = [before, after].map(|started| ended.as_secs_f64() - started.as_secs_f64());
    println!(
        "sidecar ended {:.0} ms after kubectl annotate began, {:.0} ms after it was done",
        took[0] * 1e3,
        took[1] * 1e3
    );
    assert!(took[1] < SOON.as_secs_f64(), "{took:?}");
    let pod = job_becomes(&lab, &namespace, "Complete");
    assert_eq!(*exit_code(&pod, "istio-proxy"), 0);

    // The state that the administrator saw before.
    let reported = event(&lab, &namespace, "WouldQuit");
    assert_eq!(reported["regarding"]["name"], pod["metadata"]["name"]);
    assert_eq!(reported["reportingController"], "usher.dev/agent");
    let note = reported["note"].as_str().unwrap();
    assert!(note.contains("kubectl annotate node"), "{note}");
    let after = event(&lab, &namespace, "SidecarQuit");
    assert_eq!(after["regarding"]["uid"], pod["metadata"]["uid"]);
}

/// Exactly the permissions of the chart's role, and those of every account.
fn rights(cluster: &Cluster) {
    let (usher, anybody) = (may(cluster, ACCOUNT), may(cluster, ANYBODY));
    let own: BTreeSet<&str> = usher.difference(&anybody).map(String::as_str).collect();
    let proxy = (cluster.kubernetes() < Kubernetes::V1_36).then_some(PROXY_RIGHT);
    assert_eq!(own, RIGHTS.into_iter().chain(proxy).collect());
    assert_eq!(anybody.difference(&usher).count(), 0);
}

/// The running process got the chart's capabilities, and has kept those that it still needs.
fn capabilities(lab: &Lab) {
    let pids = lab.agent_pids();
    assert_eq!(pids.len(), 1);
    let path = format!("/proc/{}/status", pids[0]);
    let status = lab.cluster.in_node(&["cat", &path]).unwrap();
    let of = |field: &str| {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    assert_eq!(of("CapBnd:"), CAPABILITIES | AT_START);
    for field in ["CapEff:", "CapPrm:"] {
        assert_eq!(of(field), CAPABILITIES, "{field}");
    }
    assert_eq!(of("CapInh:"), 0);
    assert_eq!(of("CapAmb:"), 0);
    assert_eq!(of("Seccomp:"), 2, "a filter is in force");
}

/// The newest Event of a reason in a namespace.
fn event(lab: &Lab, namespace: &str, reason: &str) -> Value {
    let get = ["-n", namespace, "get", "events.events.k8s.io"];
    until(&format!("the Event {reason} in {namespace}"), || {
        let events = lab.cluster.kubectl_json(&get).ok()?;
        let events = events["items"].as_array()?;
        events
            .iter()
            .rfind(|event| event["reason"] == reason)
            .cloned()
    })
}

/// The start and the end of the annotation, since 1970.
fn annotate(lab: &Lab, annotation: &str) -> (Duration, Duration) {
    let node = lab.cluster.node_name();
    let before = now();
    let annotate = ["annotate", "--overwrite", "node", node, annotation];
    lab.cluster.kubectl(&annotate).unwrap();
    (before, now())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The permissions of an account, a line each: resource, names if there are any, verbs.
fn may(cluster: &Cluster, account: &str) -> BTreeSet<String> {
    let account = format!("--as={account}");
    let list = [
        "auth",
        "can-i",
        "--list",
        "--no-headers",
        "-n",
        USHER,
        &account,
    ];
    let text = cluster.kubectl(&list).unwrap();
    let row = |line: &str| {
        let fields = line.split("  ").map(str::trim);
        let fields: Vec<&str> = fields.filter(|field| !["", "[]"].contains(field)).collect();
        fields.join(" ")
    };
    text.lines().map(row).collect()
}
