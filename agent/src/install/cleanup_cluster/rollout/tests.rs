use serde_json::{Value, json};

use super::super::rollout::*;

fn daemonset(generation: i64, observed: i64, wanted: i32) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"name": "usher", "uid": "ours", "generation": generation},
        "spec": {
            "selector": {"matchLabels": {"app": "usher", "part": "agent"}},
            "template": {},
        },
        "status": {
            "observedGeneration": observed, "desiredNumberScheduled": wanted,
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        },
    }))
    .unwrap()
}

/// A pod of the DaemonSet on its own node.
fn pod(name: &str, cleans_up: bool, status: &Value) -> Pod {
    let env = if cleans_up {
        json!([{"name": "USHER_CLEANUP", "value": "true"}])
    } else {
        json!([])
    };
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "usher", "uid": "ours"}],
        },
        "spec": {"nodeName": format!("node-{name}"), "containers": [{"name": "agent", "env": env}]},
        "status": status,
    }))
    .unwrap()
}

fn ready(is_ready: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": is_ready}]})
}

/// The rollout with each pod on a page of its own.
fn judge(daemonset: &DaemonSet, pods: &[Pod], container: &str) -> Rollout {
    let mut progress = Progress::of(daemonset, container);
    for page in pods.chunks(1) {
        progress.add(page);
    }
    progress.judge()
}

fn lagging(rollout: Rollout) -> Vec<(String, String)> {
    let Rollout::Waiting { lagging, .. } = rollout else {
        panic!("{rollout:?}");
    };
    lagging
        .into_iter()
        .map(|lagging| (lagging.node, lagging.why))
        .collect()
}

#[test]
fn ready_pods_mean_clean_nodes() {
    let pods = [
        pod("a", true, &ready("True")),
        pod("b", true, &ready("True")),
    ];
    let rollout = judge(&daemonset(2, 2, 2), &pods, "agent");
    assert_eq!(rollout, Rollout::Clean { nodes: 2 });
    let none = judge(&daemonset(2, 2, 0), &[], "agent");
    assert_eq!(none, Rollout::Clean { nodes: 0 });
}

#[test]
fn ready_pods_without_the_patch_are_not_clean() {
    let old = [pod("a", false, &ready("True"))];
    let found = lagging(judge(&daemonset(2, 2, 1), &old, "agent"));
    assert_eq!(found[0].0, "node-a");
    assert!(found[0].1.contains("not replaced"), "{found:?}");
    // The status is older than the change.
    let found = lagging(judge(&daemonset(2, 1, 0), &[], "agent"));
    assert!(found[0].1.contains("controller"), "{found:?}");
}

#[test]
fn node_without_a_pod_is_not_clean() {
    let pods = [pod("a", true, &ready("True"))];
    let found = lagging(judge(&daemonset(2, 2, 3), &pods, "agent"));
    assert_eq!(found[0].0, "(2 of 3)");
}

#[test]
fn foreign_pods_are_ignored() {
    let mut other = pod("a", false, &ready("True"));
    other.metadata.owner_references = None;
    let rollout = judge(&daemonset(2, 2, 0), &[other], "agent");
    assert_eq!(rollout, Rollout::Clean { nodes: 0 });
}

#[test]
fn reasons_of_nodes_that_are_not_clean() {
    let waiting = json!({"phase": "Pending", "containerStatuses": [{
        "name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}},
    }]});
    let ended = json!({"phase": "Running", "containerStatuses": [{
        "name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"terminated": {"exitCode": 64}},
    }]});
    let unscheduled = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "no room"},
    ]});
    for (status, expected) in [
        (ready("False"), "something is left"),
        (waiting, "ImagePullBackOff"),
        (ended, "ended with 64"),
        (unscheduled, "no room"),
        (json!({"phase": "Failed"}), "is Failed"),
        (json!({}), "is Pending"),
    ] {
        let pods = [pod("a", true, &status)];
        let found = lagging(judge(&daemonset(2, 2, 1), &pods, "agent"));
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains(expected), "{found:?}");
    }
    let mut going = pod("a", true, &ready("True"));
    going.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let found = lagging(judge(&daemonset(2, 2, 1), &[going], "agent"));
    assert!(found[0].1.contains("has not ended"), "{found:?}");
}

#[test]
fn selector_of_the_labels() {
    assert_eq!(selector(&daemonset(1, 1, 1)), "app=usher,part=agent");
}
