//! The real agent against a stand-in for the API server: its Events, its requests, and
//! both during an outage of the server.
//!
//! Needs root and a built agent (`cargo build -p usher-agent`). No test sleeps.

mod away;
mod node;
mod pod;
mod taint;

use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node};

/// The permissions of the agent's role; and with a startup taint.
const RIGHTS: [&str; 5] = [
    "get nodes",
    "watch nodes",
    "get namespaces",
    "create events",
    "patch events",
];

/// A node, its API server with these annotations, and an agent; None if tests are skipped here.
fn setup(annotations: &[(&str, &str)], flags: &[&str]) -> Option<(Node, ApiServer, Agent)> {
    privilege::granted().then(|| {
        let node = Node::new();
        let server = ApiServer::start();
        server.annotate(annotations);
        let agent = Agent::start_with_api(&node, &server, flags);
        (node, server, agent)
    })
}

fn enforcing() -> Option<(Node, ApiServer, Agent)> {
    let setup = setup(&[("usher.dev/mode", "enforce")], &[])?;
    wait_mode(&setup.2, "enforce");
    Some(setup)
}

fn wait_mode(agent: &Agent, mode: &str) {
    let labels = format!("capability=\"quit\",mode=\"{mode}\"");
    agent.wait_metric("usher_mode", &labels, |value| value > 0.5);
}

/// All requests were permitted by the role.
fn received_only(server: &ApiServer, more: &[&str]) {
    for request in server.requests() {
        let right = request.right();
        let known = RIGHTS.iter().chain(more).any(|known| *known == right);
        assert!(known, "{right}: {request:?}");
    }
}

/// The Events with this reason.
fn with(events: &[Value], reason: &str) -> Vec<Value> {
    let of_reason = events.iter().filter(|event| event["reason"] == reason);
    of_reason.cloned().collect()
}

/// The first Event with this reason.
fn wait_for(server: &ApiServer, reason: &str) -> Value {
    server.wait_events(reason, |events| with(events, reason).into_iter().next())
}
