//! Execs that the kernel denies, because it cannot open the program for the holder.

use nix::libc;
use usher_tests::synthetic::wire::Root;
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec, RestartPolicy};

use crate::{
    APP, app, count, held, holding, meanwhile, pod, proxy, ran_after_the_proxy, ready,
    ready_on_command, reason,
};

/// Different pods in a row that pause the holding of starts.
const PODS_IN_A_ROW: usize = 3;

fn unreadable(name: &str) -> PodSpec {
    pod(name)
        .with(app(APP).root(Root::Unreadable))
        .with(proxy())
}

/// The exec of its app fails with `EPERM`, and that is reported.
fn denied(agent: &Agent, pod: &Pod) {
    let why = reason(agent, "start-not-held", pod);
    assert!(why.contains("EPERM"), "{why}");
    assert_eq!(pod.ended(APP).code(), libc::EPERM);
    assert!(!pod.has_run(APP));
}

fn denied_execs(agent: &Agent) -> f64 {
    agent.metric("usher_start_denied_execs_total", "")
}

fn create_denied(node: &Node, agent: &Agent, name: &str) -> Pod {
    let pod = node.create(&unreadable(name));
    denied(agent, &pod);
    pod
}

#[test]
fn costs_the_hold_of_its_own_container_only() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let before = node.create(&ready_on_command("before"));
    held(&agent, &before);
    let holder = agent.wait_holder(None);
    let refused = node.create(&unreadable("refused").policy(RestartPolicy::Always));
    assert_eq!(refused.ended(APP).code(), libc::EPERM);
    // Other starts, earlier and later ones, are held as usual.
    meanwhile(&node, &agent, "next");
    assert!(!before.has_run(APP), "a start was released");
    denied(&agent, &refused);
    ready(&before);
    ran_after_the_proxy(&before);
    assert_eq!(agent.wait_holder(None), holder, "the holder ended");
    assert!(agent.metric("usher_start_hold_supported", "") > 0.5);
    assert!((denied_execs(&agent) - 1.0).abs() < 0.5);
}

/// Without usher the exec of such a program fails as well, with another error.
#[test]
fn next_run_of_the_container_is_not_marked() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let refused = node.create(&unreadable("refused").policy(RestartPolicy::Always));
    denied(&agent, &refused);
    refused.restart(APP);
    assert_eq!(refused.ended(APP).code(), libc::EACCES);
    meanwhile(&node, &agent, "next");
    assert!((denied_execs(&agent) - 1.0).abs() < 0.5);
    assert_eq!(count(&agent, "start-not-held", &refused), 1);
}

#[test]
fn several_pods_in_a_row_pause_the_holding_of_starts() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let before = node.create(&ready_on_command("before"));
    held(&agent, &before);
    let holder = agent.wait_holder(None);
    // One pod is never enough, however many of its starts are denied.
    for n in 0..PODS_IN_A_ROW {
        assert!(!before.has_run(APP), "paused after {n} pods");
        create_denied(&node, &agent, &format!("refused-{n}"));
    }
    before.first_instruction(APP);
    agent.wait_metric("usher_start_hold_supported", "", |supported| {
        supported < 0.5
    });
    let next = node.create(&ready_on_command("next"));
    next.first_instruction(APP);
    let why = reason(&agent, "start-not-held", &next);
    assert!(why.contains("the agent retries in 5 min"), "{why}");
    assert_eq!(count(&agent, "start-held", &next), 0);
    // It holds stop signals as before.
    assert_eq!(agent.wait_holder(None), holder, "the holder ended");
}

/// A start that is held in between shows that the kernel can open programs for the holder.
#[test]
fn held_start_in_between_prevents_the_pause() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for n in 0..=PODS_IN_A_ROW {
        create_denied(&node, &agent, &format!("refused-{n}"));
        meanwhile(&node, &agent, &format!("good-{n}"));
    }
}
