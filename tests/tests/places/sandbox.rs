//! A sandbox that is recreated under the same UID: a new network namespace,
//! new containers, and no action may apply to the old ones.

use nix::sys::signal::Signal;
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Pod, PodSpec, RestartPolicy};

use crate::{SIDECAR, all_is_dealt_with, enforcing, finish_and_quit, is_untouched};

/// The kubelet recreates a sandbox with this policy, not with `Never`.
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

/// The agent does not run between the exit of the app and the new sandbox, so
/// it learns of everything at once.
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

/// The agent decided to send a request to the sidecar, which does not listen. During its
/// retries another sidecar replaces it, alongside a running app.
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
    pod.send_line(SIDECAR, "listen");
    pod.wait_line(SIDECAR, "listening ");
    all_is_dealt_with(&agent, &node);
    assert!(is_untouched(&pod));
    finish_and_quit(&agent, &pod);
}

/// The same during the pod's quit delay.
#[test]
fn replaced_before_a_delayed_quit() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = job("delayed").annotation("usher.dev/quit-delay", "1s");
    let pod = node.run(&spec);
    pod.finish("app", 0);
    agent.wait_for("pod-finished", &pod.name());
    replace(&pod);
    // The other sidecar gets its request after its own delay, which started later.
    let other = node.run(&PodSpec::job("other").annotation("usher.dev/quit-delay", "1s"));
    finish_and_quit(&agent, &other);
    assert!(is_untouched(&pod));
    finish_and_quit(&agent, &pod);
}
