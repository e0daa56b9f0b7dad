//! The worker process ends, or does not reply.

use nix::sys::signal::Signal;
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{SIDECAR, enforcing, expect_quit};

#[test]
fn a_killed_worker_is_replaced() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pods = ["first", "second"].map(|name| node.run(&PodSpec::job(name)));
    let killed = agent.signal_worker(Signal::SIGKILL);
    agent.worker_after(Some(killed));
    for pod in &pods {
        pod.finish("app", 0);
        expect_quit(&agent, pod);
    }
}

/// The step fails, and the next worker takes the next one.
#[test]
fn a_stopped_worker_is_replaced() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("stopped"));
    agent.signal_worker(Signal::SIGSTOP);
    pod.finish("app", 0);
    agent.wait_for("step-failed", &pod.name());
    agent.wait_metric("usher_worker_exits_total", "", |exits| exits > 0.5);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    // Pods that finish afterwards are quit as usual.
    let next = node.run(&PodSpec::job("next"));
    next.finish("app", 0);
    expect_quit(&agent, &next);
}
