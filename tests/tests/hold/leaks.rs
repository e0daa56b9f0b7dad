//! Pods that start, wait and end leave nothing in the agent.

use std::{ops::Range, time::Duration};

use usher_tests::synthetic::{Agent, Node, Pod, PodSpec, process};
use usher_tests::wait::fewer;

use crate::{connected, eventually, holding, late, ready, ready_on_command};

const PODS: usize = 500;
/// The number of pods that live at the same time.
const CROWD: usize = 25;
/// Longer than a crowd lives on a busy machine.
const LONG: Duration = Duration::from_mins(10);

fn crowd(node: &Node, pods: Range<usize>) -> Vec<Pod> {
    let specs: Vec<PodSpec> = pods
        .map(|n| ready_on_command(&format!("brief-{n}")).hold_deadline(LONG))
        .collect();
    node.run_all(&specs)
}

fn threads(agent: &Agent) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.pid()));
    tasks.unwrap().count()
}

#[test]
fn five_hundred_pods_come_and_go() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    // The first pod creates the agent's permanent resources.
    connected(&node.run(&late("first")).client_result("app"), 1);
    let gone = || agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
    gone();
    let descriptors = agent.open_descriptors();
    let before = threads(&agent);
    // If the agent does not have the time for all of them at once, the plugin starts some without a hold.
    let at_once = fewer(CROWD);
    for first in (0..fewer(PODS)).step_by(at_once) {
        let mut pods = crowd(&node, first..first + at_once);
        // Some are released before they are removed, some wait at that moment.
        for pod in pods.iter().step_by(2) {
            ready(pod);
        }
        for pod in pods.iter().step_by(4) {
            connected(&pod.client_result("app"), 1);
        }
        for pod in &mut pods {
            pod.begin_removal();
        }
    }
    gone();
    let expired = |line: &serde_json::Value| {
        let reason = line["reason"].as_str();
        line["decision"] == "hold-released" && reason.is_some_and(|text| text.contains("deadline"))
    };
    assert_eq!(agent.log().count(expired), 0, "waited for the deadline");
    // Sockets keep a network namespace alive as well.
    eventually("the descriptors that there were", || {
        agent.open_descriptors() <= descriptors
    });
    eventually("the threads that there were", || threads(&agent) <= before);
    eventually("no network held", || {
        process::held_networks(agent.pid()).is_empty()
    });
    connected(&node.run(&late("last")).client_result("app"), 1);
}
