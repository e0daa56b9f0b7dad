//! The app of the hostile pod ends, and the agent requests its sidecar to quit.

use super::costly_rules::{DEEP, LESS_DEEP};
use super::{APP, Attack, SIDECAR};
use crate::synthetic::wire::Holding;
use crate::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

pub const ONE_POD: Attack = Attack {
    pods: 1,
    spec,
    prepare,
    packets: "",
    depth: DEEP,
    strike,
    is_reported: true,
};

pub const FOUR_PODS: Attack = Attack {
    pods: 4,
    depth: LESS_DEEP,
    ..ONE_POD
};

/// The sidecar listens, and its process sends nothing.
fn spec(name: &str) -> PodSpec {
    let proxy = Holding::default().ignoring("0.0.0.0:15020");
    PodSpec::new(name)
        .with(ContainerSpec::app(APP))
        .with(ContainerSpec::holding_proxy(proxy))
}

fn prepare(_agent: &Agent, pod: &Pod) {
    pod.wait_line(SIDECAR, "holding");
}

fn strike(_node: &Node, agent: &Agent, pod: &Pod) {
    pod.finish(APP, 0);
    agent.wait_for("pod-finished", &pod.name());
}
