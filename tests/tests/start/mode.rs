//! Modes in which nothing is held, and their reports.

use usher_tests::synthetic::Agent;

use crate::{
    APP, connected, count, held, holding, is_held_until_ready, node, ready, ready_on_command,
    reason, refused, release_reason,
};

#[test]
fn observe_mode_holds_nothing_and_reports() {
    let Some(node) = node("observe") else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("observed"));
    pod.first_instruction(APP);
    refused(&pod.client_result_so_far(APP, 1));
    ready(&pod);
    let why = reason(&agent, "would-hold", &pod);
    assert!(why.contains("start"), "{why}");
    assert_eq!(count(&agent, "start-held", &pod), 0);
    assert!(agent.metric("usher_held_starts", "").abs() < 0.5);
}

#[test]
fn off() {
    let Some(node) = node("off") else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("off"));
    pod.first_instruction(APP);
    refused(&pod.client_result_so_far(APP, 1));
    assert_eq!(count(&agent, "start-held", &pod), 0);
}

/// A ConfigMap update reaches the agent during a hold.
#[test]
fn excluded_by_configuration_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("configured"));
    held(&agent, &pod);
    node.configure("excludedNamespaces: [default]\n");
    pod.first_instruction(APP);
    let why = release_reason(&agent, &pod);
    assert!(why.contains("no longer request"), "{why}");
}

#[test]
fn held_starts_are_counted() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = ["one", "two"].map(|name| node.create(&ready_on_command(name)));
    for pod in &pods {
        held(&agent, pod);
    }
    agent.wait_metric("usher_holder_up", "", |up| up > 0.5);
    agent.wait_metric("usher_held_starts", "", |starts| (starts - 2.0).abs() < 0.5);
    for pod in &pods {
        is_held_until_ready(&agent, pod);
        connected(&pod.client_result_so_far(APP, 1));
    }
    crate::nothing_is_held(&agent);
    for (name, labels) in [
        ("usher_decisions_total", "decision=\"start-held\""),
        ("usher_decisions_total", "decision=\"start-released\""),
        ("usher_start_hold_duration_seconds_count", ""),
    ] {
        agent.wait_metric(name, labels, |count| (count - 2.0).abs() < 0.5);
    }
    assert!(agent.metric("usher_holder_exits_total", "").abs() < 0.5);
}
