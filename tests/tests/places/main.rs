//! The real agent with unusual pods, and with a replacement for
//! the target of an action: the wrong process never gets a request or a signal.
//!
//! Needs root and a built agent (`cargo build -p usher-agent`). Tests that need
//! the whole machine's loopback or pids run in a machine of their own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod entered_network;
mod hidden;
mod host_network;
mod name;
mod nested;
mod reuse;
mod sandbox;
mod shared_pids;
mod users;

use std::path::PathBuf;

use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec, usher};
use usher_tests::wait::{found_within, patience};

const SIDECAR: &str = "istio-proxy";

/// A node in enforce mode; None if tests are skipped here.
fn enforcing() -> Option<Node> {
    privilege::granted().then(|| enforced(Node::new()))
}

fn enforced(node: Node) -> Node {
    node.annotate(&[("usher.dev/mode", "enforce")]);
    node.allow_slow_sidecars();
    node
}

/// The cgroup of a container.
fn cgroup(pod: &Pod, container: &str) -> PathBuf {
    let id = pod.id(container);
    let directories = std::fs::read_dir(pod.cgroup()).unwrap();
    let mut paths = directories.map(|entry| entry.unwrap().path());
    let cgroup = paths.find(|path| path.to_string_lossy().contains(&id));
    cgroup.unwrap()
}

/// The agent follows app and sidecar of the only pod.
fn both_are_followed(node: &Node) {
    found_within(patience(), "both containers", || {
        let pods = usher::on(node, &["pods", "-o", "json"]).stdout;
        let pods: Value = serde_json::from_str(&pods).unwrap();
        let containers = pods["items"][0]["containers"].as_array()?;
        let running = containers.iter().filter(|one| one["state"] == "running");
        (running.filter(|one| one["name"].is_string()).count() == 2).then_some(())
    });
}

/// Ends the app, and expects one request to the sidecar, by POST to the
/// status port, and its exit with 0.
fn finish_and_quit(agent: &Agent, pod: &Pod) {
    pod.finish("app", 0);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    let requests = pod.requests(SIDECAR);
    let lines: Vec<_> = requests
        .iter()
        .map(|request| (request.port, request.line.as_str()))
        .collect();
    assert_eq!(lines, [(15_020, "POST /quitquitquit HTTP/1.1")]);
    assert_eq!(terms(pod), 0);
}

/// Ends the app, and expects SIGTERM for the sidecar and no request.
fn finish_and_signal(agent: &Agent, pod: &Pod) {
    pod.finish("app", 0);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    assert_eq!(terms(pod), 1);
    assert!(pod.requests(SIDECAR).is_empty());
}

/// The agent has processed all earlier events: a later pod is
/// complete.
fn all_is_dealt_with(agent: &Agent, node: &Node) {
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(agent, &other);
}

/// The sidecar got neither a request nor a signal.
fn is_untouched(pod: &Pod) -> bool {
    pod.requests(SIDECAR).is_empty() && terms(pod) == 0 && pod.end_so_far(SIDECAR).is_none()
}

/// The number of SIGTERMs to the sidecar.
fn terms(pod: &Pod) -> usize {
    let lines = pod.lines(SIDECAR);
    lines
        .iter()
        .filter(|line| line.starts_with("term "))
        .count()
}
