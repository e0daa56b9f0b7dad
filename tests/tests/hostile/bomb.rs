//! A fork bomb at the exit of the app.

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Mischief, Program};
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec};

use crate::{
    APP, all_done, another_is_quit, enforcing, finish_and_quit, hostile, is_quit, is_sound,
    observe_apps,
};

/// Enough to matter to the agent's scan, and no danger to the machine.
const PROCESSES: u32 = 400;

fn bomber(name: &str) -> PodSpec {
    hostile(name, Mischief::default().bomb(PROCESSES))
}

/// The bomb ends with the pid namespace.
#[test]
fn in_a_pid_namespace_of_its_own() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pods = all_done(&node, bomber);
    for pod in &pods {
        pod.finish(APP, 0);
    }
    another_is_quit(&node, &agent, "other");
    for pod in &pods {
        is_quit(&agent, pod);
    }
    is_sound(&agent);
}

/// The processes outlive the app, in its cgroup: its init process has exited all the same.
#[test]
fn with_processes_that_outlive_the_app() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pods = all_done(&node, |name| bomber(name).sharing_processes());
    observe_apps(&agent, &pods);
    for pod in &pods {
        pod.finish(APP, 0);
    }
    another_is_quit(&node, &agent, "other");
    for pod in &pods {
        is_quit(&agent, pod);
        whole(pod);
    }
    is_sound(&agent);
}

/// A starting agent examines all of them. No process is pid 1 of its container there, and the agent mistakes none
/// of them for the app.
#[test]
fn present_when_the_agent_starts() {
    let Some(node) = enforcing() else { return };
    let pods: Vec<Pod> = ["one", "two"].map(|name| bombed(&node, name)).into();
    let agent = Agent::start(&node);
    another_is_quit(&node, &agent, "other");
    observe_apps(&agent, &pods);
    for pod in &pods {
        finish_and_quit(&agent, pod);
    }
    is_sound(&agent);
}

/// A live app, alongside all the processes of an exited one.
fn bombed(node: &Node, name: &str) -> Pod {
    let bomber = Mischief::default().bomb(PROCESSES);
    let spec = PodSpec::job(name).sharing_processes();
    let pod = node.run(&spec);
    pod.exec(APP, "bomber", Program::Mischief(bomber));
    pod.wait_line("bomber", "done");
    pod.send_line("bomber", "exit 0");
    pod.ended("bomber");
    whole(&pod);
    pod
}

/// Its processes exist, in the app's cgroup.
fn whole(pod: &Pod) {
    let procs = pod.cgroup().join(pod.id(APP)).join("cgroup.procs");
    let all = || {
        let text = std::fs::read_to_string(&procs).unwrap();
        text.lines().count() >= PROCESSES as usize
    };
    eventually("the whole bomb", all);
}
