//! A pid that belongs to another process by the time that the agent acts on it.
//!
//! The kernel gets the next number to use
//! (`/proc/sys/kernel/ns_last_pid`), in a machine of the test's own. The agent
//! is stopped like a process that gets no CPU, so that it learns of the old
//! process's exit and of the new process only afterwards. Not forced here: a pid
//! that is reused between the agent's read of `cgroup.procs` and its
//! `pidfd_open`; the agent reads the process's cgroup again after that.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec, machine};

use crate::{SIDECAR, all_is_dealt_with, enforced, finish_and_quit, is_untouched};

/// As in `usher.dev/quit-delay: 1s`.
const DELAY: Duration = Duration::from_secs(1);
/// The attempts, because another process may take the pid first.
const TRIES: usize = 20;

/// Gives the sidecar of a pod this pid.
fn take(pod: &Pod, pid: i32) {
    for _ in 0..TRIES {
        pod.start_with_pid(SIDECAR, pid);
        pod.wait_container(SIDECAR);
        if pod.pid(SIDECAR) == pid {
            return;
        }
        pod.signal(SIDECAR, Signal::SIGKILL);
        pod.ended(SIDECAR);
    }
    panic!("pid {pid} went to another process {TRIES} times");
}

/// A pod with a running app, and a sidecar that is created later.
fn bystander(node: &Node) -> Pod {
    let sidecar = ContainerSpec::istio(Manner::Quit).later();
    node.run(&PodSpec::beside_app("bystander", sidecar))
}

fn apart(test: &str) -> Option<Node> {
    let test = format!("reuse::{test}");
    let inside = privilege::granted() && machine::entered(&test);
    inside.then(|| enforced(Node::new()))
}

#[test]
fn of_a_sidecar_before_its_request() {
    let Some(node) = apart("of_a_sidecar_before_its_request") else {
        return;
    };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("gone"));
    taken_over(&node, &agent, &pod);
}

/// The same with SIGTERM as the first step.
#[test]
fn of_a_sidecar_before_its_signal() {
    let Some(node) = apart("of_a_sidecar_before_its_signal") else {
        return;
    };
    let agent = Agent::start(&node);
    let spec = PodSpec::job("gone").annotation("usher.dev/sidecars", "istio-proxy=SIGTERM");
    let pod = node.run(&spec);
    taken_over(&node, &agent, &pod);
}

fn taken_over(node: &Node, agent: &Agent, pod: &Pod) {
    let bystander = bystander(node);
    all_is_dealt_with(agent, node);
    let pid = pod.pid(SIDECAR);
    agent.signal(Signal::SIGSTOP);
    pod.finish("app", 0);
    pod.ended("app");
    pod.signal(SIDECAR, Signal::SIGKILL);
    pod.ended(SIDECAR);
    take(&bystander, pid);
    agent.signal(Signal::SIGCONT);
    agent.wait_for("pod-finished", &pod.name());
    all_is_dealt_with(agent, node);
    assert!(is_untouched(&bystander));
    finish_and_quit(agent, &bystander);
}

/// The decision is made, and becomes due when the pid belongs to another process.
#[test]
fn of_a_sidecar_with_a_delayed_quit() {
    let Some(node) = apart("of_a_sidecar_with_a_delayed_quit") else {
        return;
    };
    let agent = Agent::start(&node);
    let spec = PodSpec::job("gone")
        .annotation("usher.dev/quit-delay", "1s")
        .annotation("usher.dev/sidecars", "istio-proxy=SIGTERM");
    let pod = node.run(&spec);
    let bystander = bystander(&node);
    all_is_dealt_with(&agent, &node);
    let pid = pod.pid(SIDECAR);
    pod.finish("app", 0);
    agent.wait_for("pod-finished", &pod.name());
    agent.signal(Signal::SIGSTOP);
    pod.signal(SIDECAR, Signal::SIGKILL);
    pod.ended(SIDECAR);
    take(&bystander, pid);
    // Real time has to pass: the quit is due when the agent continues.
    std::thread::sleep(DELAY);
    agent.signal(Signal::SIGCONT);
    all_is_dealt_with(&agent, &node);
    assert!(is_untouched(&bystander));
    finish_and_quit(&agent, &bystander);
}

/// The exit of an app counts, even if another process has its pid now.
#[test]
fn of_an_exited_app() {
    let Some(node) = apart("of_an_exited_app") else {
        return;
    };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("done"));
    let bystander = bystander(&node);
    all_is_dealt_with(&agent, &node);
    let pid = pod.pid("app");
    agent.signal(Signal::SIGSTOP);
    pod.finish("app", 0);
    pod.ended("app");
    take(&bystander, pid);
    agent.signal(Signal::SIGCONT);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    assert!(is_untouched(&bystander));
}
