//! The runtime's directory: its path, its creation, and the readers of its mounts.

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Node};

use crate::{holding, is_held_until_ready, meanwhile, ready_on_command};

/// As on a node that has not run a container yet.
fn without_directory() -> Option<Node> {
    let node = holding()?;
    let directory = node.bundle_dir().unwrap();
    std::fs::remove_dir(&directory).unwrap();
    std::fs::remove_dir(directory.parent().unwrap()).unwrap();
    Some(node)
}

#[test]
fn agent_receives_the_mounts() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("mounts"));
    let mounts = || std::fs::read_to_string(format!("/proc/{}/mountinfo", agent.pid())).unwrap();
    let id = pod.id("app");
    eventually("the mount", || mounts().contains(&id));
    let mounts = mounts();
    let line = mounts.lines().find(|line| line.contains(&id)).unwrap();
    assert!(line.contains(" master:"), "{line}");
    drop(pod);
}

#[test]
fn directory_created_later() {
    let Some(node) = without_directory() else {
        return;
    };
    let agent = Agent::start(&node);
    meanwhile(&node, &agent, "first");
    meanwhile(&node, &agent, "second");
}

/// No descriptor of the agent keeps a root mounted.
#[test]
fn roots_are_unmounted_when_containers_end() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("unmounted"));
    is_held_until_ready(&agent, &pod);
    let bundle = node.bundle_dir().unwrap().join(pod.id("app"));
    pod.finish("app", 0);
    eventually("the runtime to remove it", || !bundle.exists());
}
