//! Mounts in a container with false claims.

use usher_tests::synthetic::wire::{Mischief, MountTrick};
use usher_tests::synthetic::{Agent, Pod, PodSpec};

use crate::{
    APP, SIDECAR, all_done, another_is_quit, done, enforcing, finish_and_quit, hostile, is_sound,
    received, terms,
};

/// A container that claims to be the sidecar affects only itself: the agent sends no request and no signal
/// to another process, and delays no other pod.
fn only_itself(trick: &Mischief) {
    let Some(node) = enforcing() else { return };
    let bystander = node.run(&PodSpec::job("bystander"));
    let pods = all_done(&node, |name| hostile(name, trick.clone()));
    // The agent reads mounts that exist before it starts, and mounts that appear later.
    let agent = Agent::start(&node);
    another_is_quit(&node, &agent, "other");
    for pod in &pods {
        pod.finish(APP, 0);
        pod.ended(APP);
    }
    another_is_quit(&node, &agent, "later");
    is_untouched(&bystander);
    finish_and_quit(&agent, &bystander);
    is_sound(&agent);
}

fn is_untouched(pod: &Pod) {
    assert!(received(pod, SIDECAR).is_empty());
    assert_eq!(terms(pod, SIDECAR), 0);
    assert!(pod.end_so_far(SIDECAR).is_none());
}

#[test]
fn claim_to_be_the_sidecar() {
    let claim = MountTrick::claim(None, SIDECAR);
    only_itself(&Mischief::default().mounting(claim.clone()));
    let hidden = Mischief::default().mounting(claim);
    only_itself(&hidden.mounting(MountTrick::HideTerminationLog));
}

/// The cgroup identifies its pod.
#[test]
fn claim_to_be_of_another_pod() {
    let Some(node) = enforcing() else { return };
    let bystander = node.run(&PodSpec::job("bystander"));
    let claim = MountTrick::claim(Some(bystander.uid()), APP);
    let trick = Mischief::default()
        .mounting(claim)
        .mounting(MountTrick::HideTerminationLog);
    let pod = done(&node, &hostile("liar", trick));
    let agent = Agent::start(&node);
    agent.wait_metric("usher_pods", "", |pods| pods > 1.5);
    another_is_quit(&node, &agent, "other");
    // The exit of this pod's app is not the exit of the other pod's app.
    pod.finish(APP, 0);
    pod.ended(APP);
    another_is_quit(&node, &agent, "later");
    is_untouched(&bystander);
    finish_and_quit(&agent, &bystander);
}

/// The agent has a procfs of its own.
#[test]
fn over_its_own_process() {
    let Some(node) = enforcing() else { return };
    let trick = Mischief::default().mounting(MountTrick::OverOwnProcess);
    let pod = done(&node, &hostile("covered", trick));
    let agent = Agent::start(&node);
    finish_and_quit(&agent, &pod);
}

/// Tens of MB of mountinfo, of which the agent needs one line.
#[test]
fn thousands_with_long_names() {
    let Some(node) = enforcing() else { return };
    let many = Mischief::default().mounting(MountTrick::Many {
        mounts: 4_000,
        depth: 14,
    });
    let hidden = many.clone().mounting(MountTrick::HideTerminationLog);
    // The second one does not have that line: the agent searches it repeatedly.
    let pods = [("many", many), ("nameless", hidden)]
        .map(|(name, mischief)| done(&node, &hostile(name, mischief)));
    for pod in &pods {
        let size = size_of_mountinfo(pod);
        assert!(size > 32 << 20, "{size} bytes");
    }
    let agent = Agent::start(&node);
    another_is_quit(&node, &agent, "other");
    for pod in &pods {
        finish_and_quit(&agent, pod);
    }
    is_sound(&agent);
}

fn size_of_mountinfo(pod: &Pod) -> usize {
    let path = format!("/proc/{}/mountinfo", pod.pid(APP));
    std::fs::read(path).unwrap().len()
}
