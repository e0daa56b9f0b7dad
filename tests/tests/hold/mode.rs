//! Modes without a hold, and the end of a hold by a change of the mode.

use usher_tests::synthetic::{Agent, ApiServer, usher};

use crate::{armed, has_table, holding, node, opened, ready_on_command, reason, refused};

/// The decision is only logged at debug level.
fn not_held(agent: &Agent) {
    agent.wait_metric("usher_decisions_total", "not-held", |count| count > 0.5);
}

#[test]
fn observe_mode_counts_refused_connections() {
    let Some(node) = node("observe") else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("observed"));
    refused(&pod.client_result("app"));
    let why = reason(&agent, "would-hold", &pod);
    assert!(why.contains("1 connection"), "{why}");
    let report = usher::on(&node, &["report", "-o", "json"]);
    assert!(
        report.stdout.contains("\"refusedConnections\": 1"),
        "{report:?}"
    );
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
    refused(&pod.client_result("app"));
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
    refused(&pod.client_result("app"));
    not_held(&agent);
}

#[test]
fn disabled_at_start() {
    let Some(node) = node("off") else { return };
    let _agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("off"));
    refused(&pod.client_result("app"));
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
    refused(&pod.client_result("app"));
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
    refused(&pod.client_result("app"));
    let why = opened(&agent, &pod);
    assert!(why.contains("no longer request"), "{why}");
    assert!(!has_table(&pod));
}

/// The API server rejects the request for the Namespace, which opts out: its pods are not held, and their ADD does not
/// wait for a retry.
#[test]
fn unreadable_namespace() {
    let Some(node) = holding() else { return };
    let server = ApiServer::start();
    server.annotate(&[("usher.dev/hold", "enforce")]);
    server.annotate_namespace("default", &[("usher.dev/hold", "false")]);
    server.forbid("get namespaces");
    let agent = Agent::start_with_api(&node, &server, &[]);
    let enforcing = "capability=\"hold\",mode=\"enforce\"";
    agent.wait_metric("usher_mode", enforcing, |mode| mode > 0.5);
    let pod = node.run(&ready_on_command("unread"));
    refused(&pod.client_result("app"));
    assert_eq!(pod.added(1).code, Some(0));
    let replied = agent.metric("usher_cni_announcements_total", "result=\"not-held\"");
    assert!(replied > 0.5, "{}", agent.metrics());
    server.allow("get namespaces");
    not_held(&agent);
    let decisions = agent.decisions(&pod.name());
    assert!(
        !decisions.contains(&"hold-armed".to_owned()),
        "{decisions:?}"
    );
}
