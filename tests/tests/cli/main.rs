//! The real program `usher`, as a user runs it, with the real agent and without one, on synthetic pods.
//!
//! Needs root and built programs (`cargo build -p usher-agent`). Expected texts are files in `golden/`, with placeholders
//! for varying values; `USHER_BLESS=1` rewrites them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod act;
mod capture;
mod check;
mod completion;
mod config;
mod connect;
mod conns;
mod explain;
mod full;
mod hostile;
mod log;
mod metrics;
mod network;
mod peer;
mod plan;
mod pods;
mod report;
mod request;
mod resolve;
mod rules;
mod status;
mod stuck;
mod sysdump;
mod watch;

use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Node, usher, usher::Ran};

/// A node in enforce mode.
fn enforcing() -> Option<Node> {
    let node = privilege::granted().then(Node::new)?;
    node.annotate(&[("usher.dev/mode", "enforce")]);
    Some(node)
}

/// Runs `usher` on this node with these arguments.
fn run(node: &Node, arguments: &[&str]) -> Ran {
    usher::on(node, arguments)
}

/// Runs it, and expects success.
fn answer(node: &Node, arguments: &[&str]) -> String {
    let ran = run(node, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran.stdout
}

/// Runs it with `-o json`.
fn json(node: &Node, arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["-o", "json"]].concat();
    serde_json::from_str(&answer(node, &arguments)).unwrap()
}

/// Waits until the agent knows everything about a pod with a running app: the kubelet's data, and its processes.
fn known(node: &Node) {
    eventually("all is known of the pod", || {
        let pods = run(node, &["pods"]);
        pods.stderr.is_empty() && pods.stdout.contains("app container app runs")
    });
    all_run(node);
}

/// Waits until the agent has observed the containers that run. Init containers have ended, and the sandbox has no name.
fn all_run(node: &Node) {
    eventually("all containers to be observed", || {
        let pods = json(node, &["pods", "--all"]);
        let items = pods["items"].as_array().into_iter().flatten();
        let mut containers = items
            .flat_map(|pod| pod["containers"].as_array().into_iter().flatten())
            .filter(|container| container["name"].is_string() && container["role"] != "init");
        pods["from"] == "agent" && containers.all(|container| container["state"] == "running")
    });
}

/// Compares a text with a file of `golden/`, with these placeholders for varying values.
fn golden(name: &str, text: &str, names: &[(&str, &str)]) {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden");
    usher_tests::golden::check(&directory.join(name), text, names);
}
