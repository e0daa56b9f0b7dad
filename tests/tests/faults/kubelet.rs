//! The kubelet returns errors, or does not respond, and recovers.

use usher_tests::synthetic::{Agent, Behaviour, Node, PodSpec};

use crate::{enforcing, expect_quit, finish_and_quit, wait_observed};

/// The kubelet fails from before the agent's start until after an app's exit.
/// Then it recovers, and pending actions follow.
fn recovers_from(behaviour: Behaviour, result: &str) {
    let Some(node) = enforcing() else { return };
    node.kubelet().behave(behaviour);
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("due"));
    expect_complaint(&agent, &node, behaviour, result);
    pod.finish("app", 0);
    pod.ended("app");
    node.kubelet().behave(Behaviour::Ok);
    expect_quit(&agent, &pod);
    let later = node.run(&PodSpec::job("later"));
    finish_and_quit(&agent, &later);
}

fn expect_complaint(agent: &Agent, node: &Node, behaviour: Behaviour, result: &str) {
    node.kubelet().wait_requests(behaviour, 1);
    let label = format!("result=\"{result}\"");
    agent.wait_metric("usher_kubelet_requests_total", &label, |count| count >= 1.0);
    agent.log().wait("a complaint about the kubelet", |line| {
        let loud = line["level"] == "WARN" || line["level"] == "ERROR";
        let text = line.to_string().to_lowercase();
        (loud && text.contains("kubelet")).then_some(())
    });
}

#[test]
fn unauthorized() {
    recovers_from(Behaviour::Status(401), "unauthorized");
}

#[test]
fn forbidden() {
    recovers_from(Behaviour::Status(403), "forbidden");
}

#[test]
fn server_error() {
    recovers_from(Behaviour::Status(500), "server-error");
}

#[test]
fn truncated_json() {
    recovers_from(Behaviour::TruncatedJson, "decode");
}

#[test]
fn silence() {
    recovers_from(Behaviour::Silence, "timeout");
}

#[test]
fn rotated_token() {
    let Some(node) = enforcing() else { return };
    let token = std::fs::read(node.token_file()).unwrap();
    std::fs::write(node.token_file(), "expired").unwrap();
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("due"));
    let label = "result=\"unauthorized\"";
    agent.wait_metric("usher_kubelet_requests_total", label, |count| count >= 1.0);
    pod.finish("app", 0);
    std::fs::write(node.token_file(), token).unwrap();
    expect_quit(&agent, &pod);
}

/// The quit of a known pod does not need the kubelet.
#[test]
fn disappears_after_a_request() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("known"));
    // The second pod is quit, so the list with both of them has been read.
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    wait_observed(&node, &pod);
    node.kubelet().behave(Behaviour::Status(500));
    finish_and_quit(&agent, &pod);
}

/// The response for a new pod hangs; a known pod is quit meanwhile.
#[test]
fn silence_delays_no_known_pod() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("known"));
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    wait_observed(&node, &pod);
    node.kubelet().behave(Behaviour::Silence);
    let unknown = node.run(&PodSpec::job("unknown"));
    node.kubelet().wait_requests(Behaviour::Silence, 1);
    finish_and_quit(&agent, &pod);
    node.kubelet().behave(Behaviour::Ok);
    finish_and_quit(&agent, &unknown);
}
