//! A kernel that cannot hold connections.

use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node, PodSpec};

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
