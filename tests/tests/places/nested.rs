//! A container that moves its processes to a cgroup below its own, as systemd does.

use std::fs;

use serde_json::Value;
use usher_tests::{
    synthetic::{Agent, ContainerSpec, PodSpec, usher, wire::Manner},
    wait::{found_within, patience},
};

use crate::{SIDECAR, enforcing, finish_and_quit};

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
        let id = pod.id(container);
        let directories = fs::read_dir(pod.cgroup()).unwrap();
        let mut paths = directories.map(|entry| entry.unwrap().path());
        let cgroup = paths.find(|path| path.to_string_lossy().contains(&id));
        let cgroup = cgroup.unwrap();
        let nested = cgroup.join("init.scope");
        fs::create_dir(&nested).unwrap();
        let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap();
        for pid in pids.lines() {
            fs::write(nested.join("cgroup.procs"), pid).unwrap();
        }
    }
    let agent = Agent::start(&node);
    found_within(patience(), "both containers", || {
        let pods = usher::on(&node, &["pods", "-o", "json"]).stdout;
        let pods: Value = serde_json::from_str(&pods).unwrap();
        let containers = pods["items"][0]["containers"].as_array()?;
        let running = containers.iter().filter(|one| one["state"] == "running");
        (running.filter(|one| one["name"].is_string()).count() == 2).then_some(())
    });
    finish_and_quit(&agent, &pod);
}
