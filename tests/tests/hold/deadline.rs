//! A sidecar that is not ready in time.

use usher_tests::synthetic::{Agent, PodSpec};

use crate::{connected, has_table, holding, opened, ready, reason, refused, told};

fn brief(name: &str) -> PodSpec {
    told(name).annotation("usher.dev/hold-deadline", "2s")
}

#[test]
fn at_the_deadline_connections_go() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&brief("open"));
    refused(&pod.visit("app"));
    let why = opened(&agent, &pod);
    assert!(why.contains("the deadline has come"), "{why}");
    assert!(why.contains("1 connection had waited"), "{why}");
    assert!(!has_table(&pod));
}

#[test]
fn where_that_is_asked_for_they_wait_on() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&brief("closed").annotation("usher.dev/on-deadline", "closed"));
    reason(&agent, "hold-stays-shut", &pod);
    assert!(pod.end_so_far("app").is_none());
    assert!(has_table(&pod));
    ready(&pod);
    connected(&pod.visit("app"), 1);
    opened(&agent, &pod);
}
