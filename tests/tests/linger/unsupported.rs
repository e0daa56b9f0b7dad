//! Pods whose stop signals are not held.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::{
    synthetic::{
        Agent, ContainerSpec, PodSpec,
        clock::eventually,
        spec::RestartPolicy,
        usher,
        wire::{Manner, Pace},
    },
    wait::slower,
};

use crate::{APP, SIDECAR, is, is_armed, lingering, pod, reason};

/// A runtime with another layout, such as Kata.
#[test]
fn unknown_layout_is_reported() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let pod = node.run(&pod("other").policy(RestartPolicy::Always));
    let agent = Agent::start_with(&node, &[state.flag()]);
    let why = reason(&agent, "linger-unsupported", &pod);
    assert!(
        why.contains("keeps no state of the container in /nonexistent"),
        "{why}"
    );
    let first = pod.id(SIDECAR);
    pod.signal(SIDECAR, Signal::SIGKILL);
    // The state of a later run is known, and written before it has a process.
    let pace = Pace {
        stage: slower(Duration::from_secs(2)),
        ..Pace::CONTAINERD
    };
    pod.restart_at(SIDECAR, pace);
    state.add(&pod, SIDECAR);
    crate::wait_armed(&agent, &pod, 1);
    assert_eq!(agent.log().count(|line| is_armed(line, &first)), 0);
}

#[test]
fn pod_without_the_annotation_is_not_armed() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let plain = node.run(&PodSpec::beside_app(
        "plain",
        ContainerSpec::istio(Manner::Quit),
    ));
    let requested = node.run(&pod("requested"));
    for pod in [&plain, &requested] {
        state.add(pod, SIDECAR);
    }
    let agent = Agent::start_with(&node, &[state.flag()]);
    crate::wait_armed(&agent, &requested, 1);
    plain.mark_deleted();
    state.kill(&plain, SIDECAR, "15").succeeds();
    plain.ended(SIDECAR);
    assert_eq!(agent.log().count(|line| is(line, "linger-held", &plain)), 0);
}

/// In observe mode there is not even a holder.
#[test]
fn observe_mode_reports_and_arms_nothing() {
    let Some((node, state)) = lingering() else {
        return;
    };
    node.annotate(&[
        ("usher.dev/mode", "enforce"),
        ("usher.dev/linger", "observe"),
    ]);
    let pod = node.run(&pod("observed"));
    state.add(&pod, SIDECAR);
    let agent = Agent::start_with(&node, &[state.flag()]);
    // Otherwise the kubelet reports the end of the sidecar, a second later.
    let processes = [APP, SIDECAR].map(|container| pod.pid(container));
    eventually("the agent to observe the containers", || {
        processes.iter().all(|pid| agent.watches(*pid))
    });
    pod.mark_deleted();
    state.kill(&pod, SIDECAR, "15").succeeds();
    pod.ended(SIDECAR);
    // The agent reports a second and more.
    usher::wait_gap(&node, Duration::from_secs(2));
    pod.finish(APP, 0);
    let why = reason(&agent, "would-linger", &pod);
    assert!(
        why.contains("before the last app of the deleted pod"),
        "{why}"
    );
    assert!(agent.holder().is_none());
}
