//! The real agent with synthetic pods, during faults and
//! unusual conditions.
//!
//! Needs root and a built agent (`cargo build -p usher-agent`). No test
//! sleeps: every wait is for a condition, with a timeout that
//! only a failure reaches.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock;
mod config;
mod connections;
mod descriptors;
mod features;
mod full_disk;
mod kernel;
mod kubelet;
mod kubelet_certificate;
mod ladder;
mod life;
mod list;
mod mode;
mod namespace;
mod overflow;
mod policy;
mod proc;
mod resources;
mod restart;
mod stopped;
mod timeline;
mod unread;
mod worker;

use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Node, Pod, usher};

const SIDECAR: &str = "istio-proxy";

/// A node with the mode enforce; None if tests are skipped here.
fn enforcing() -> Option<Node> {
    privilege::granted().then(|| {
        let node = Node::new();
        node.annotate(&[("usher.dev/mode", "enforce")]);
        node
    })
}

/// Waits until the agent observes the app and knows its name, which it reads later. Otherwise only the kubelet could
/// report its end.
fn wait_observed(node: &Node, pod: &Pod) {
    wait_state(node, pod, "running");
}

/// Waits until the agent knows that the app is in this state.
fn wait_state(node: &Node, pod: &Pod, state: &str) {
    eventually(
        &format!("the agent to know that the app is {state}"),
        || {
            let pods = usher::on(node, &["pods", "--all", "-o", "json"]);
            let pods: Value = serde_json::from_str(&pods.stdout).unwrap_or_default();
            let items = pods["items"].as_array().into_iter().flatten();
            let of_pod = items.filter(|item| item["uid"] == pod.uid());
            let mut containers =
                of_pod.flat_map(|item| item["containers"].as_array().into_iter().flatten());
            pods["from"] == "agent"
                && containers.any(|one| one["name"] == "app" && one["state"] == state)
        },
    );
}

/// Ends the app, and expects one request to the sidecar, by POST to the
/// status port, and its exit with 0.
fn finish_and_quit(agent: &Agent, pod: &Pod) {
    pod.finish("app", 0);
    expect_quit(agent, pod);
}

fn expect_quit(agent: &Agent, pod: &Pod) {
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    let requests = pod.requests(SIDECAR);
    let lines: Vec<_> = requests
        .iter()
        .map(|request| (request.port, request.line.as_str()))
        .collect();
    assert_eq!(lines, [(15020, "POST /quitquitquit HTTP/1.1")]);
}

/// The decisions so far, without those about the hold of its connections.
fn other_than_hold(agent: &Agent, pod: &Pod) -> Vec<String> {
    let mut decisions = agent.decisions(&pod.name());
    decisions.retain(|decision| !decision.starts_with("hold-"));
    decisions
}
