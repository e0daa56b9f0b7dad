//! Pods that end, or change, while their connections are held.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use usher_tests::synthetic::{Agent, RestartPolicy, process};

use crate::{
    SIDECAR, armed, connected, eventually, has_table, holding, late, opened, ready,
    ready_on_command, refused,
};

#[test]
fn deleted_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("deleted"));
    armed(&agent, &pod);
    pod.mark_deleted();
    // A new pod makes the agent read the list, with the deletion.
    let other = node.run(&late("other"));
    refused(&pod.client_result("app"));
    let why = opened(&agent, &pod);
    assert!(why.contains("being deleted"), "{why}");
    connected(&other.client_result("app"), 1);
}

#[test]
fn removed_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("gone"));
    armed(&agent, &pod);
    drop(pod);
    eventually("no network to be held", || {
        process::held_networks(agent.pid()) == BTreeSet::new()
    });
    connected(&node.run(&late("next")).client_result("app"), 1);
}

#[test]
fn sandbox_is_replaced_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    // With the policy Never the kubelet would not create another sandbox.
    let pod = node.run(&ready_on_command("replaced").policy(RestartPolicy::Always));
    armed(&agent, &pod);
    pod.replace_sandbox();
    assert_eq!(pod.added(2).code, Some(0));
    let armed =
        |line: &serde_json::Value| line["decision"] == "hold-armed" && line["pod"] == pod.name();
    eventually("the hold of the new sandbox", || {
        agent.log().count(armed) == 2
    });
    assert!(has_table(&pod));
    for container in ["app", SIDECAR] {
        pod.start(container);
    }
    pod.wait_container(SIDECAR);
    ready(&pod);
    connected(&pod.client_result("app"), 1);
}

#[test]
fn sidecar_exits_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("ended"));
    armed(&agent, &pod);
    pod.signal(SIDECAR, Signal::SIGTERM);
    refused(&pod.client_result("app"));
    let why = opened(&agent, &pod);
    assert!(why.contains("ended"), "{why}");
    assert!(!has_table(&pod));
}

#[test]
fn app_gives_up_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("impatient"));
    armed(&agent, &pod);
    pod.signal("app", Signal::SIGKILL);
    pod.ended("app");
    opened(&agent, &pod);
    assert!(!has_table(&pod));
}
