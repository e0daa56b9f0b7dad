//! The startup taint.

use serde_json::{Value, json};
use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Behaviour, Node};

use crate::{received_only, wait_for, wait_mode, with};

const KEY: &str = "usher.dev/not-ready";

fn ours() -> Value {
    json!({"key": KEY, "effect": "NoSchedule"})
}

fn other() -> Value {
    json!({"key": "example.com/gpu", "value": "yes", "effect": "NoExecute"})
}

fn third() -> Value {
    json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"})
}

fn tainted() -> Option<(Node, ApiServer)> {
    privilege::granted().then(|| {
        let server = ApiServer::start();
        server.taint(json!([other(), ours()]));
        (Node::new(), server)
    })
}

fn start(node: &Node, server: &ApiServer) -> Agent {
    Agent::start_with_api(node, server, &["--startup-taint", KEY])
}

#[test]
fn taint_is_removed_once_the_agent_is_ready() {
    let Some((node, server)) = tainted() else {
        return;
    };
    node.kubelet().behave(Behaviour::Status(500));
    let agent = start(&node, &server);
    wait_mode(&agent, "observe");
    node.kubelet().wait_requests(Behaviour::Status(500), 2);
    assert!(server.requests_for("patch nodes").is_empty());
    assert_eq!(server.taints(), json!([other(), ours()]));
    node.kubelet().behave(Behaviour::Ok);
    server.wait_taints("only the other", |taints| *taints == json!([other()]));
    let event = wait_for(&server, "StartupTaintRemoved");
    assert_eq!(event["regarding"]["name"], "synthetic-node");
    assert_eq!(server.requests_for("patch nodes").len(), 1);
    received_only(&server, &["patch nodes"]);
}

#[test]
fn concurrent_taint_change_is_preserved() {
    let Some((node, server)) = tainted() else {
        return;
    };
    server.race(third());
    let agent = start(&node, &server);
    server.wait_taints("what others want", |taints| {
        *taints == json!([other(), third()])
    });
    assert_eq!(server.requests_for("patch nodes").len(), 2);
    let errors = agent.metric("usher_startup_taint_errors_total", "");
    assert!(errors < 0.5, "{errors}");
}

#[test]
fn returning_taint_is_removed_again() {
    let Some((node, server)) = tainted() else {
        return;
    };
    let _agent = start(&node, &server);
    server.wait_taints("it is gone", |taints| *taints == json!([other()]));
    server.taint(json!([ours()]));
    server.wait_taints("none", |taints| *taints == json!([]));
}

#[test]
fn failed_removal_is_reported() {
    let Some((node, server)) = tainted() else {
        return;
    };
    server.forbid("patch nodes");
    let agent = start(&node, &server);
    let event = wait_for(&server, "StartupTaintNotRemoved");
    assert_eq!(event["type"], "Warning");
    let note = event["note"].as_str().unwrap();
    let command = "kubectl taint node synthetic-node usher.dev/not-ready-";
    assert!(note.contains(command), "{note}");
    agent.wait_metric("usher_startup_taint_errors_total", "", |count| count > 0.5);
    server.allow("patch nodes");
    server.wait_taints("only the other", |taints| *taints == json!([other()]));
    wait_for(&server, "StartupTaintRemoved");
}

/// An earlier failure must not suppress the report.
#[test]
fn failed_removal_is_reported_after_a_failed_read() {
    let Some((node, server)) = tainted() else {
        return;
    };
    node.kubelet().behave(Behaviour::Status(500));
    let agent = start(&node, &server);
    wait_mode(&agent, "observe");
    // The watch continues.
    server.wait_requests("watch nodes", 1);
    server.forbid("get nodes");
    server.forbid("patch nodes");
    node.kubelet().behave(Behaviour::Ok);
    server.wait_requests("get nodes", 1 + 4);
    let errors = agent.metric("usher_startup_taint_errors_total", "");
    assert!(errors < 0.5, "{errors}");
    server.allow("get nodes");
    wait_for(&server, "StartupTaintNotRemoved");
    agent.log().wait("the same in the log", |line| {
        let message = line["message"].as_str()?;
        message
            .starts_with("could not remove the startup taint")
            .then_some(())
    });
}

#[test]
fn taint_stays_without_the_option() {
    let Some((node, server)) = tainted() else {
        return;
    };
    let agent = Agent::start_with_api(&node, &server, &[]);
    wait_mode(&agent, "observe");
    node.kubelet().wait_requests(Behaviour::Ok, 1);
    server.annotate(&[("usher.dev/mode", "off")]);
    wait_mode(&agent, "off");
    assert_eq!(server.taints(), json!([other(), ours()]));
    assert_eq!(server.requests_for("get nodes").len(), 1, "the watch's");
    assert!(with(&server.events(), "StartupTaintRemoved").is_empty());
    received_only(&server, &[]);
}
