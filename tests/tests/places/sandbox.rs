//! A sandbox that is made again under the same UID: a new network namespace,
//! new containers, and nothing of the old ones is meant any more.

use nix::sys::signal::Signal;
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Pod, PodSpec, RestartPolicy};

use crate::{SIDECAR, all_is_dealt_with, enforcing, finish_and_quit, is_untouched};

/// The kubelet makes a sandbox again under this policy, not under `Never`.
fn job(name: &str) -> PodSpec {
    PodSpec::job(name).policy(RestartPolicy::OnFailure)
}

fn replace(pod: &Pod) {
    let before = pod.network();
    pod.replace_sandbox();
    for container in ["app", SIDECAR] {
        pod.restart(container);
        pod.wait_container(container);
    }
    assert_ne!(pod.network(), before);
}

#[test]
fn replaced_while_the_app_runs() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&job("again"));
    replace(&pod);
    all_is_dealt_with(&agent, &node);
    assert!(is_untouched(&pod));
    finish_and_quit(&agent, &pod);
}

/// The agent does not get to run between the app's end and the new sandbox, so
/// that it learns of all of it at once.
#[test]
fn replaced_while_the_agent_is_frozen() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&job("frozen"));
    all_is_dealt_with(&agent, &node);
    agent.signal(Signal::SIGSTOP);
    pod.finish("app", 0);
    pod.ended("app");
    replace(&pod);
    agent.signal(Signal::SIGCONT);
    all_is_dealt_with(&agent, &node);
    assert!(is_untouched(&pod));
    finish_and_quit(&agent, &pod);
}

/// It was decided to ask the sidecar, which does not listen; while it is tried
/// again, there is another one in its place, beside an app that runs.
#[test]
fn replaced_between_decision_and_action() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("between")
        .policy(RestartPolicy::OnFailure)
        .with(ContainerSpec::app("app"))
        .with(ContainerSpec::istio(Manner::Quit).refusing());
    let pod = node.run(&spec);
    pod.finish("app", 0);
    agent.wait_for("pod-finished", &pod.name());
    replace(&pod);
    pod.tell(SIDECAR, "listen");
    pod.wait_line(SIDECAR, "listening ");
    all_is_dealt_with(&agent, &node);
    assert!(is_untouched(&pod));
    finish_and_quit(&agent, &pod);
}

/// The same in the wait that the pod asks for.
#[test]
fn replaced_before_a_delayed_quit() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = job("delayed").annotation("usher.dev/quit-delay", "1s");
    let pod = node.run(&spec);
    pod.finish("app", 0);
    agent.wait_for("pod-finished", &pod.name());
    replace(&pod);
    // Asks after its own second, which began later.
    let other = node.run(&PodSpec::job("other").annotation("usher.dev/quit-delay", "1s"));
    finish_and_quit(&agent, &other);
    assert!(is_untouched(&pod));
    finish_and_quit(&agent, &pod);
}
