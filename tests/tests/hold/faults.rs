//! The agent dies, stops or wedges while fifty pods are held. The kernel opens
//! the doors at the deadline, and pods start all the time.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::{
    FAR, SIDECAR, armed, connected, eventually, has_table, holding, opened, pod, ready, told,
};

const PODS: usize = 50;
/// Pods that start at the same time.
const STARTS: usize = 10;
/// Far beyond what the plugin may wait for.
const BOUND: Duration = Duration::from_secs(5);

/// Apps that stay, so that their network namespaces can be looked at.
fn staying(name: &str, deadline: &str) -> PodSpec {
    let app = ContainerSpec::client("app", Client::to(FAR).staying());
    pod(name, app, mesh::proxy(Listen::WhenTold)).annotation("usher.dev/hold-deadline", deadline)
}

fn hold(node: &Node, agent: &Agent, deadline: &str) -> Vec<Pod> {
    let specs: Vec<PodSpec> = (0..PODS)
        .map(|n| staying(&format!("held-{n}"), deadline))
        .collect();
    let pods: Vec<Pod> = specs
        .chunks(STARTS)
        .flat_map(|specs| node.run_all(specs))
        .collect();
    for pod in &pods {
        armed(agent, pod);
    }
    pods
}

/// A pod that starts now starts, and its app's first connection is refused.
fn starts_unheld(node: &Node, name: &str) {
    let pod = node.run(&told(name));
    let added = pod.added(1);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.took < BOUND, "{added:?}");
    crate::refused(&pod.visit("app"));
}

/// Nobody helps them, and all of them succeed: the sidecars are ready before
/// the deadline, which opens the doors.
fn succeed_by_the_deadline(pods: &[Pod]) {
    for pod in pods {
        ready(pod);
    }
    for pod in pods {
        pod.heard(SIDECAR, "listening 15021 ");
        connected(&pod.visit_so_far("app", 1), 1);
    }
}

fn nothing_is_left(pods: &[Pod]) {
    for pod in pods {
        eventually("the table to be deleted", || !has_table(pod));
    }
}

#[test]
fn killed() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, "8s");
    agent.kill();
    starts_unheld(&node, "during");
    succeed_by_the_deadline(&pods);
    let agent = Agent::start(&node);
    nothing_is_left(&pods);
    connected(&node.run(&crate::late("after")).visit("app"), 1);
    drop(agent);
}

#[test]
fn stopped() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, "8s");
    agent.signal(Signal::SIGSTOP);
    starts_unheld(&node, "during");
    succeed_by_the_deadline(&pods);
    agent.signal(Signal::SIGCONT);
    nothing_is_left(&pods);
    connected(&node.run(&crate::late("after")).visit("app"), 1);
}

#[test]
fn wedged() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, "8s");
    agent.wedged(|| {
        starts_unheld(&node, "during");
        succeed_by_the_deadline(&pods);
    });
    nothing_is_left(&pods);
    connected(&node.run(&crate::late("after")).visit("app"), 1);
}

/// The next agent takes the holds over, and the deadlines with them.
#[test]
fn restarted_while_they_wait() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, "60s");
    agent.kill();
    let agent = Agent::start(&node);
    for pod in &pods {
        agent.log().wait("hold-found", |line| {
            (line["decision"] == "hold-found" && line["uid"] == pod.uid()).then_some(())
        });
    }
    for pod in &pods {
        ready(pod);
    }
    for pod in &pods {
        connected(&pod.visit_so_far("app", 1), 1);
        let why = opened(&agent, pod);
        assert!(why.contains("is ready"), "{why}");
    }
    nothing_is_left(&pods);
}
