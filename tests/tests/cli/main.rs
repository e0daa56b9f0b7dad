//! The real program `usher`, as a person runs it, beside the real agent and without one, on synthetic pods.
//!
//! Needs root and built programs (`cargo build -p usher-agent`). Golden texts are files of `golden/`, in which what
//! varies from run to run has a name instead; `USHER_BLESS=1` writes them anew.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod act;
mod capture;
mod check;
mod completion;
mod config;
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
mod request;
mod rules;
mod status;
mod sysdump;
mod watch;

use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Node, usher, usher::Ran};

/// A node whose annotation says enforce.
fn enforcing() -> Option<Node> {
    let node = privilege::granted().then(Node::new)?;
    node.annotate(&[("usher.dev/mode", "enforce")]);
    Some(node)
}

/// Runs `usher` on this node with these arguments.
fn run(node: &Node, arguments: &[&str]) -> Ran {
    usher::on(node, arguments)
}

/// Runs it, and has it end well.
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

/// Waits until the agent knows all of a pod whose app runs: what the kubelet lists of it, and its processes.
fn known(node: &Node) {
    eventually("all is known of the pod", || {
        let pods = run(node, &["pods"]);
        pods.stderr.is_empty() && pods.stdout.contains("app container app runs")
    });
}

/// Whether a text is what a file of `golden/` says, with these names for what varies.
fn golden(name: &str, text: &str, names: &[(&str, &str)]) {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden");
    usher_tests::golden::check(&directory.join(name), text, names);
}
