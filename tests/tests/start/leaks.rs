//! Held, released and removed starts leave nothing in the agent and in the
//! holder.

use std::ops::Range;

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Node, Pod, process};
use usher_tests::wait::fewer;

use crate::{
    APP, count, holding, meanwhile, nothing_is_held, ran_after_the_proxy, ready, ready_on_command,
};

const PODS: usize = 200;
/// The number of pods that live at the same time.
const CROWD: usize = 20;

fn crowd(node: &Node, numbers: Range<usize>) -> Vec<Pod> {
    numbers
        .map(|n| node.create(&ready_on_command(&format!("brief-{n}"))))
        .collect()
}

#[test]
fn two_hundred_pods_come_and_go() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    // The first pod creates the permanent resources.
    meanwhile(&node, &agent, "first");
    let gone = || agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
    gone();
    let holder = agent.wait_holder(None);
    let before = [agent.open_descriptors(), holder.open_descriptors()];
    let is_held = |pod: &Pod| count(&agent, "start-held", pod) > 0;
    // If the agent does not have the time for all of them at once, some start without a hold.
    let at_once = fewer(CROWD);
    for first in (0..fewer(PODS)).step_by(at_once) {
        let mut pods = crowd(&node, first..first + at_once);
        for pod in &pods {
            pod.started(APP);
            eventually("a start to be held, or missed", || {
                is_held(pod) || pod.has_run(APP)
            });
        }
        assert!(pods.iter().any(is_held), "nothing was held");
        // Some are released before they are removed, some wait at that moment.
        for pod in pods.iter().step_by(2) {
            ready(pod);
        }
        for pod in pods.iter().step_by(4).filter(|pod| is_held(pod)) {
            ran_after_the_proxy(pod);
        }
        for pod in &mut pods {
            pod.begin_removal();
        }
    }
    gone();
    nothing_is_held(&agent);
    assert_eq!(
        agent.wait_holder(None),
        holder,
        "it did not live through it"
    );
    eventually("the descriptors that there were", || {
        agent.open_descriptors() <= before[0] && holder.open_descriptors() <= before[1]
    });
    eventually("no network held", || {
        process::held_networks(agent.pid()).is_empty()
    });
    meanwhile(&node, &agent, "last");
}
