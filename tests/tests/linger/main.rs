//! The real agent and the stop signals of real processes. A stand-in for runc has runc's command line and opens the
//! container's state before it sends the signal, as runc does.
//!
//! Needs root and built binaries (`cargo build --workspace --bins`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auto;
mod conditions;
mod drain;
mod faults;
mod network;
mod observe;
mod pre_stop;
mod release;
mod unsupported;

use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::catalog::istio;
use usher_tests::synthetic::runtime::{Command, StateDir};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

const APP: &str = "app";
const SIDECAR: &str = "istio-proxy";

/// A node on which sidecars linger, with the directory of its runtime; None if tests are skipped here.
fn lingering() -> Option<(Node, StateDir)> {
    privilege::granted().then(|| {
        let node = Node::new();
        node.annotate(&[("usher.dev/linger", "enforce")]);
        let state = StateDir::below(&node.run_dir());
        (node, state)
    })
}

fn pod(name: &str) -> PodSpec {
    pod_with(name, istio::v1_26().container)
}

/// A pod with this sidecar.
fn pod_with(name: &str, sidecar: ContainerSpec) -> PodSpec {
    PodSpec::beside_app(name, sidecar).annotation("usher.dev/linger", "true")
}

/// Pods that run, and an agent that has armed their sidecars.
fn armed(node: &Node, state: &StateDir, specs: &[PodSpec]) -> (Agent, Vec<Pod>) {
    let pods = node.run_all(specs);
    for pod in &pods {
        state.add(pod, APP);
        state.add(pod, SIDECAR);
    }
    let agent = Agent::start_with(node, &[state.flag()]);
    for pod in &pods {
        wait_armed(&agent, pod, 1);
    }
    (agent, pods)
}

fn one(name: &str) -> Option<(Node, StateDir, Agent, Pod)> {
    let (node, state) = lingering()?;
    let (agent, mut pods) = armed(&node, &state, &[pod(name)]);
    Some((node, state, agent, pods.remove(0)))
}

/// Waits until a sidecar has been armed this often.
fn wait_armed(agent: &Agent, pod: &Pod, times: usize) {
    let id = pod.id(SIDECAR);
    usher_tests::synthetic::clock::eventually("an armed sidecar", || {
        agent.log().count(|line| is_armed(line, &id)) >= times
    });
}

fn is_armed(line: &Value, id: &str) -> bool {
    let message = line["message"].as_str().unwrap_or_default();
    message.starts_with("armed:") && line["container_id"] == id
}

/// The pod is deleted: the runtime sends the stop signal of its sidecar, which waits.
fn held(state: &StateDir, agent: &Agent, pod: &Pod) -> Command {
    pod.mark_deleted();
    let mut kill = state.kill(pod, SIDECAR, "15");
    reason(agent, "linger-held", pod);
    assert!(!kill.has_ended());
    assert!(pod.end_so_far(SIDECAR).is_none());
    kill
}

fn reason(agent: &Agent, decision: &str, pod: &Pod) -> String {
    let what = format!("{decision} of {}", pod.name());
    agent.log().wait(&what, |line| {
        let reason = || line["reason"].as_str().unwrap().to_owned();
        is(line, decision, pod).then(reason)
    })
}

fn is(line: &Value, decision: &str, pod: &Pod) -> bool {
    line["decision"] == decision && line["uid"] == pod.uid()
}

/// The reason of its release.
fn released(agent: &Agent, pod: &Pod) -> String {
    reason(agent, "linger-released", pod)
}
