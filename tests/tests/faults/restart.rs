//! The agent is killed, or did not run.

use nix::sys::signal::Signal;
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec, RestartPolicy};

use crate::{SIDECAR, enforcing, expect_quit, finish_and_quit};

#[test]
fn killed_between_exit_and_request() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("between")
        .with(ContainerSpec::app("app"))
        .with(ContainerSpec::istio(Manner::Quit).refusing());
    let pod = node.run(&spec);
    pod.finish("app", 0);
    agent.wait_for("pod-finished", &pod.name());
    agent.kill();
    pod.send_line(SIDECAR, "listen");
    pod.wait_line(SIDECAR, "listening");
    assert!(pod.requests(SIDECAR).is_empty());
    let agent = Agent::start(&node);
    expect_quit(&agent, &pod);
}

/// The first status of the kubelet suffices.
#[test]
fn started_after_the_exit() {
    let Some(node) = enforcing() else { return };
    node.kubelet().lag(std::time::Duration::ZERO);
    let pod = node.run(&PodSpec::job("before"));
    pod.finish("app", 0);
    pod.ended("app");
    node.kubelet().answer_once();
    let agent = Agent::start(&node);
    expect_quit(&agent, &pod);
}

/// The kubelet's status still reports the app as running.
#[test]
fn started_after_the_exit_with_a_stale_status() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("before"));
    pod.finish("app", 0);
    pod.ended("app");
    let agent = Agent::start(&node);
    expect_quit(&agent, &pod);
}

/// Only the kubelet's status has the code of an exit that the agent did not observe.
#[test]
fn started_after_an_exit_under_on_failure() {
    let Some(node) = enforcing() else { return };
    let policy = RestartPolicy::OnFailure;
    let succeeded = node.run(&PodSpec::job("succeeded").policy(policy));
    let failed = node.run(&PodSpec::job("failed").policy(policy));
    succeeded.finish("app", 0);
    failed.finish("app", 1);
    succeeded.ended("app");
    failed.ended("app");
    let agent = Agent::start(&node);
    expect_quit(&agent, &succeeded);
    assert!(failed.requests(SIDECAR).is_empty());
    failed.restart("app");
    failed.wait_container("app");
    finish_and_quit(&agent, &failed);
}

#[test]
fn restarted_while_the_app_runs() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("through"));
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    agent.kill();
    let agent = Agent::start(&node);
    finish_and_quit(&agent, &pod);
}

#[test]
fn sigterm_exits_with_zero() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("there"));
    // It serves metrics once it handles signals.
    agent.wait_metric("usher_pods", "", |pods| pods > 0.5);
    assert_eq!(agent.stop(), Some(0));
    assert!(pod.end_so_far(SIDECAR).is_none());
}

/// Stopped like a process that gets no CPU: it processes the events
/// when it continues.
#[test]
fn frozen_for_a_while() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let first = node.run(&PodSpec::job("first"));
    agent.signal(Signal::SIGSTOP);
    let second = node.run(&PodSpec::job("second"));
    for pod in [&first, &second] {
        pod.finish("app", 0);
        pod.ended("app");
    }
    agent.signal(Signal::SIGCONT);
    expect_quit(&agent, &first);
    expect_quit(&agent, &second);
}
