//! Runtimes that hide the processes of a pod from the node.

use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec};

use crate::{SIDECAR, all_is_dealt_with, enforcing, is_untouched};

/// A pod with an app that has no processes on the node.
fn spec(name: &str) -> PodSpec {
    PodSpec::new(name)
        .with(ContainerSpec::app("app").later())
        .with(ContainerSpec::istio(Manner::Quit))
}

/// Kata's containers have no cgroups of their own on the node. The kubelet's
/// status alone could be stale; with a RuntimeClass the agent accepts it after a while.
#[test]
fn in_a_virtual_machine() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&spec("kata").runtime_class("kata-qemu"));
    pod.claim("app");
    let line = agent.wait_for("runtime-unsupported", &pod.name());
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("RuntimeClass kata-qemu"), "{reason}");
    all_is_dealt_with(&agent, &node);
    assert!(is_untouched(&pod));
}

/// gVisor's containers have empty cgroups.
#[test]
fn in_a_cgroup_that_stays_empty() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&spec("gvisor"));
    pod.wait_container(SIDECAR);
    let cgroup = pod.cgroup().join(pod.claim("app"));
    std::fs::create_dir(&cgroup).unwrap();
    agent.wait_for("runtime-unsupported", &pod.name());
    all_is_dealt_with(&agent, &node);
    assert!(is_untouched(&pod));
    std::fs::remove_dir(&cgroup).unwrap();
}
