//! Sidecars that misbehave: the agent tries the next step, and no other pod waits.

use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, PodSpec, Request};

use crate::{SIDECAR, enforcing, expect_quit};

/// A busy machine may run the processes of one pod late. An agent that waits for another pod is late in each try.
const TRIES: usize = 3;

fn job(name: &str, sidecar: ContainerSpec) -> PodSpec {
    PodSpec::new(name)
        .with(ContainerSpec::app("app"))
        .with(sidecar)
}

fn ports(requests: &[Request]) -> Vec<u16> {
    let mut ports: Vec<u16> = requests.iter().map(|request| request.port).collect();
    ports.dedup();
    ports
}

/// The status port fails, the admin port works. A pod that finishes at the
/// same time is not delayed.
fn falls_back_to_the_admin_port(manner: Manner) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let mut tries = (0..TRIES).map(|number| is_not_delayed(&node, &agent, manner, number));
    assert!(tries.any(|is_on_time| is_on_time), "delayed in each try");
}

/// Whether the other pod was quit before the second step.
fn is_not_delayed(node: &Node, agent: &Agent, manner: Manner, number: usize) -> bool {
    let sidecar = ContainerSpec::istio(manner).admin(Manner::Quit);
    let bad = node.run(&job(&format!("bad-{number}"), sidecar));
    let good = node.run(&PodSpec::job(&format!("good-{number}")));
    bad.finish("app", 0);
    bad.request(SIDECAR);
    good.finish("app", 0);
    expect_quit(agent, &good);
    assert_eq!(bad.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &bad.name());
    agent.wait_for("step-failed", &bad.name());
    let requests = bad.requests(SIDECAR);
    let mut ports = ports(&requests);
    // A request without a reply is repeated.
    ports.dedup();
    if ports.first() == Some(&15000) {
        // It got no processor during the first attempt, and received both requests at once.
        return false;
    }
    assert_eq!(ports, [15020, 15000]);
    assert!(
        requests
            .iter()
            .all(|request| request.line.starts_with("POST /quitquitquit "))
    );
    // A status is a failure at once; everything else takes the agent's timeout.
    let last = requests.last().unwrap();
    let at_once = matches!(manner, Manner::Status(_));
    at_once || good.request(SIDECAR).at_ns < last.at_ns
}

#[test]
fn hangs() {
    falls_back_to_the_admin_port(Manner::Hang);
}

#[test]
fn streams_without_end() {
    falls_back_to_the_admin_port(Manner::EndlessBody);
}

#[test]
fn closes_early() {
    falls_back_to_the_admin_port(Manner::CloseWithoutReply);
}

#[test]
fn answers_500() {
    falls_back_to_the_admin_port(Manner::Status(500));
}

#[test]
fn answers_200_and_stays() {
    falls_back_to_the_admin_port(Manner::IgnoreQuit);
}

#[test]
fn ignores_both_ports_and_gets_sigterm() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let sidecar = ContainerSpec::istio(Manner::IgnoreQuit).admin(Manner::IgnoreQuit);
    let pod = node.run(&job("stubborn", sidecar));
    pod.finish("app", 0);
    pod.wait_line(SIDECAR, "term ");
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    assert_eq!(ports(&pod.requests(SIDECAR)), [15020, 15000]);
}

#[test]
fn never_listens_and_gets_sigterm() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&job(
        "silent",
        ContainerSpec::istio(Manner::Quit).refusing(),
    ));
    pod.finish("app", 0);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    pod.wait_line(SIDECAR, "term ");
    agent.wait_for("sidecar-ended", &pod.name());
    assert!(pod.requests(SIDECAR).is_empty());
}

#[test]
fn ignores_everything_and_is_given_up_once() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let sidecar = ContainerSpec::istio(Manner::IgnoreQuit).deaf_to_term();
    let pod = node.run(&job("deaf", sidecar));
    pod.finish("app", 0);
    let line = agent.wait_for("gave-up", &pod.name());
    assert_eq!(line["container"], SIDECAR);
    assert!(pod.end_so_far(SIDECAR).is_none());
    // A later pod is quit as usual, and this one is not reported again.
    let asked = pod.requests(SIDECAR).len();
    let other = node.run(&PodSpec::job("other"));
    other.finish("app", 0);
    expect_quit(&agent, &other);
    assert_eq!(pod.requests(SIDECAR).len(), asked);
    let decisions = agent.decisions(&pod.name());
    let gave_up = decisions.iter().filter(|decision| *decision == "gave-up");
    assert_eq!(gave_up.count(), 1, "{decisions:?}");
}

#[test]
fn restarted_sidecar_is_quit_again() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("again"));
    pod.finish("app", 0);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    pod.restart(SIDECAR);
    pod.wait_container(SIDECAR);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    assert_eq!(pod.requests(SIDECAR).len(), 1);
    agent.wait_for("sidecar-ended", &pod.name());
}
