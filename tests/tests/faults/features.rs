//! A kernel that cannot hold connections.

use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node, PodSpec, machine, usher};

use crate::finish_and_quit;

/// An agent without `CAP_NET_ADMIN` gets the same errors as without nf_tables: the table of a hold cannot be created.
/// `tests/tests/cli/check.rs` tests the report of `usher check`.
#[test]
fn hold_is_disabled_and_reported_and_quits_continue() {
    if !privilege::granted_with(&["setpriv"]) {
        return;
    }
    let node = Node::new();
    let server = ApiServer::start();
    server.annotate(&[("usher.dev/mode", "enforce")]);
    let agent = Agent::start_without(&node, &server, "-net_admin");
    agent.wait_metric("usher_mode", "capability=\"quit\",mode=\"enforce\"", |on| {
        on > 0.5
    });
    assert!(agent.metric("usher_hold_supported", "") < 0.5);
    let lacks = agent.log().wait("a complaint", |line| {
        let expected = "the kernel cannot hold connections; pods start unheld";
        (line["message"] == expected).then(|| line["missing"].as_str().unwrap().to_owned())
    });
    assert!(lacks.contains("nf_tables"), "{lacks}");
    let note = server.wait_events("the Event", |events| {
        let is_unsupported = |event: &&serde_json::Value| event["reason"] == "HoldUnsupported";
        let event = events.iter().find(is_unsupported)?;
        event["note"].as_str().map(str::to_owned)
    });
    assert!(note.contains("nf_tables"), "{note}");
    let pod = node.run(&PodSpec::job("unheld"));
    finish_and_quit(&agent, &pod);
}

/// Without `CAP_SYS_PTRACE` the network namespace of the first process cannot be opened, and in a machine of its own the agent's
/// is not the initial one: it could be a pod's.
#[test]
fn unknown_host_namespace_is_reported_and_only_observed() {
    let is_inside = privilege::granted_with(&["setpriv"])
        && machine::entered("features::unknown_host_namespace_is_reported_and_only_observed");
    if !is_inside {
        return;
    }
    let node = Node::new();
    let server = ApiServer::start();
    server.annotate(&[("usher.dev/mode", "enforce")]);
    let agent = Agent::start_without(&node, &server, "-sys_ptrace");
    agent.wait_metric("usher_mode", "capability=\"quit\",mode=\"observe\"", |on| {
        on > 0.5
    });
    let note = server.wait_events("the Event", |events| {
        let is_unknown = |event: &&serde_json::Value| event["reason"] == "HostNetnsUnknown";
        let event = events.iter().find(is_unknown)?;
        event["note"].as_str().map(str::to_owned)
    });
    assert!(note.contains("hostPID: true"), "{note}");
    let pod = node.run(&PodSpec::job("observed"));
    pod.finish("app", 0);
    agent.wait_for("would-quit", &pod.name());
    assert!(pod.requests("istio-proxy").is_empty());
    let check = usher::on(&node, &["check"]).stdout;
    let expected = "although enforce is set: the host's network namespace is unknown";
    assert!(check.contains(expected), "{check}");
}
