//! Modes without a hold, and the end of a hold by a change of the mode.

use usher_tests::synthetic::Agent;

use crate::{armed, has_table, holding, node, opened, ready_on_command, reason, refused};

/// It is only logged at debug level.
fn not_held(agent: &Agent) {
    agent.wait_metric("usher_decisions_total", "not-held", |count| count > 0.5);
}

#[test]
fn observe_mode_counts_refused_connections() {
    let Some(node) = node("observe") else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("observed"));
    refused(&pod.visit("app"));
    let why = reason(&agent, "would-hold", &pod);
    assert!(why.contains("1 connection"), "{why}");
    assert!(!has_table(&pod));
    assert!(
        !agent
            .decisions(&pod.name())
            .contains(&"hold-armed".to_owned())
    );
}

#[test]
fn pod_and_node_opt_out() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("out").annotation("usher.dev/hold", "false"));
    refused(&pod.visit("app"));
    assert_eq!(pod.added(1).code, Some(0));
    not_held(&agent);
    assert!(!has_table(&pod));
}

#[test]
fn excluded_namespace() {
    let Some(node) = holding() else { return };
    node.configure("excludedNamespaces: [aside]\n");
    let agent = Agent::start(&node);
    let mut spec = ready_on_command("excluded");
    spec.namespace = "aside".to_owned();
    let pod = node.run(&spec);
    refused(&pod.visit("app"));
    not_held(&agent);
}

#[test]
fn disabled_at_start() {
    let Some(node) = node("off") else { return };
    let _agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("off"));
    refused(&pod.visit("app"));
    assert!(!has_table(&pod));
}

/// A ConfigMap update reaches the agent during a hold.
#[test]
fn excluded_by_configuration_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("configured"));
    armed(&agent, &pod);
    node.configure("excludedNamespaces: [default]\n");
    refused(&pod.visit("app"));
    let why = opened(&agent, &pod);
    assert!(why.contains("no longer request"), "{why}");
    assert!(!has_table(&pod));
}

/// By the Node's annotation, which is read at the start if there is no API
/// server.
#[test]
fn disabled_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("switched"));
    armed(&agent, &pod);
    agent.kill();
    node.annotate(&[("usher.dev/hold", "off")]);
    let agent = Agent::start(&node);
    refused(&pod.visit("app"));
    let why = opened(&agent, &pod);
    assert!(why.contains("no longer request"), "{why}");
    assert!(!has_table(&pod));
}
