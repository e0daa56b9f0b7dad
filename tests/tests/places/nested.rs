//! A container that moves its processes to a cgroup below its own, as systemd does.

use std::fs;

use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec, wire::Manner};

use crate::{SIDECAR, both_are_followed, cgroup, enforcing, finish_and_quit};

/// An agent that starts later finds them.
#[test]
fn processes_moved_before_the_agent_starts() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(
        &PodSpec::new("nested")
            .with(ContainerSpec::app("app"))
            .with(ContainerSpec::istio(Manner::Quit)),
    );
    for container in ["app", SIDECAR] {
        let cgroup = cgroup(&pod, container);
        let nested = cgroup.join("init.scope");
        fs::create_dir(&nested).unwrap();
        let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap();
        for pid in pids.lines() {
            fs::write(nested.join("cgroup.procs"), pid).unwrap();
        }
    }
    let agent = Agent::start(&node);
    both_are_followed(&node);
    finish_and_quit(&agent, &pod);
}
