//! A kernel that does not let connections be held.

use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node, PodSpec};

use crate::finish_and_quit;

/// An agent without `CAP_NET_ADMIN` finds what it would find without nf_tables: the table of a hold cannot be made.
/// What `usher check` says of that is in `tests/tests/cli/check.rs`.
#[test]
fn holding_is_off_and_that_is_said_and_quits_go_on() {
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
        let said = "the kernel cannot hold connections; pods start unheld";
        (line["message"] == said).then(|| line["lacks"].as_str().unwrap().to_owned())
    });
    assert!(lacks.contains("nf_tables"), "{lacks}");
    let note = server.wait_events("the Event", |events| {
        let told = |event: &&serde_json::Value| event["reason"] == "HoldUnsupported";
        let event = events.iter().find(told)?;
        event["note"].as_str().map(str::to_owned)
    });
    assert!(note.contains("nf_tables"), "{note}");
    let pod = node.run(&PodSpec::job("unheld"));
    finish_and_quit(&agent, &pod);
}
