//! The agent or the holder is killed or stopped while a stop signal waits: the signal continues.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::catalog::{istio, mesh};
use usher_tests::synthetic::runtime::StateDir;
use usher_tests::synthetic::wire::{Capture, Client, Listen, Pace, Root};
use usher_tests::synthetic::{ContainerSpec, Node, PodSpec};

use crate::{
    APP, SIDECAR, armed, held, is, lingering, one, pod, pod_with, reason, released, wait_armed,
};

#[test]
fn holder_killed() {
    let Some((_node, state, agent, pod)) = one("killed") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    agent.holder().unwrap().signal(Signal::SIGKILL);
    kill.succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("the process that held it ended"), "{why}");
}

/// Only the first stop signal waits: the sidecar has it since the holder's end, and drains.
#[test]
fn second_stop_command_after_the_holder_was_killed() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let drains = pod_with("drains", istio::v1_26().container.deaf_to_term());
    let (agent, pods) = armed(&node, &state, &[drains, pod("other")]);
    let kill = held(&state, &agent, &pods[0]);
    agent.holder().unwrap().signal(Signal::SIGKILL);
    kill.succeeds();
    // The next holder arms what still is to be held.
    wait_armed(&agent, &pods[1], 2);
    state.kill(&pods[0], SIDECAR, "15").succeeds();
    let held = |line: &Value| is(line, "linger-held", &pods[0]);
    assert_eq!(agent.log().count(held), 1);
    assert!(pods[0].end_so_far(SIDECAR).is_none());
}

/// Its timer kills it.
#[test]
fn holder_stopped() {
    let Some((_node, state, agent, pod)) = one("stopped") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    agent.holder().unwrap().signal(Signal::SIGSTOP);
    kill.succeeds();
    pod.ended(SIDECAR);
}

/// Armed, and nothing waits yet: the runtime's next command waits for the timer only.
#[test]
fn holder_stopped_before_the_signal() {
    let Some((_node, state, agent, pod)) = one("before") else {
        return;
    };
    agent.holder().unwrap().signal(Signal::SIGSTOP);
    state.query(&pod, SIDECAR).succeeds();
    pod.mark_deleted();
    // The next holder arms it again.
    wait_armed(&agent, &pod, 2);
    let kill = held(&state, &agent, &pod);
    pod.finish(APP, 0);
    kill.succeeds();
    pod.ended(SIDECAR);
}

/// The kernel cannot open the programs of several pods in a row for the holder: no starts are held for a while.
#[test]
fn denied_starts_of_other_pods() {
    if !privilege::granted_with(&["nft", "nsenter", "setpriv"]) {
        return;
    }
    let node = Node::with_bundles();
    node.annotate(&[("usher.dev/mode", "enforce")]);
    let state = StateDir::below(&node.run_dir());
    let (agent, pods) = armed(&node, &state, &[pod("one"), pod("two")]);
    let kill = held(&state, &agent, &pods[0]);
    for number in 0..3 {
        let app = ContainerSpec::client(APP, Client::to("10.7.7.7:8080").staying());
        // The root has to be marked before the program is executed.
        let slow = Duration::from_millis(400);
        let app = app.pace(Pace {
            create: slow,
            exec: slow,
            ..Pace::CONTAINERD
        });
        let denied = PodSpec::new(&format!("denied-{number}"))
            .captured(Capture::default())
            .announced()
            .annotation("usher.dev/hold", "start")
            .annotation("usher.dev/hold-deadline", "5m")
            .with(app.root(Root::Unreadable))
            .with(mesh::proxy(Listen::OnCommand));
        let denied = node.create(&denied);
        reason(&agent, "start-not-held", &denied);
    }
    agent.wait_metric("usher_start_hold_supported", "", |supported| {
        supported < 0.5
    });
    // The signal still waits, and so does that of another pod.
    let other = held(&state, &agent, &pods[1]);
    for (mut kill, pod) in [(kill, &pods[0]), (other, &pods[1])] {
        assert!(!kill.has_ended());
        pod.finish(APP, 0);
        kill.succeeds();
        let why = released(&agent, pod);
        assert!(why.starts_with("no app of the pod runs"), "{why}");
    }
}

/// The worker process has no part in it.
#[test]
fn worker_killed() {
    let Some((_node, state, agent, pod)) = one("worker") else {
        return;
    };
    let mut kill = held(&state, &agent, &pod);
    let killed = agent.signal_worker(Signal::SIGKILL);
    agent.worker_after(Some(killed));
    assert!(!kill.has_ended());
    pod.finish(APP, 0);
    kill.succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("no app of the pod runs"), "{why}");
}

#[test]
fn agent_killed() {
    let Some((_node, state, agent, pod)) = one("agent") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    agent.kill();
    kill.succeeds();
    pod.ended(SIDECAR);
}

/// The holder applies the limit without its agent.
#[test]
fn agent_stopped() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let spec = pod("limit").annotation("usher.dev/linger", "8s");
    let (agent, pods) = armed(&node, &state, &[spec]);
    let kill = held(&state, &agent, &pods[0]);
    agent.signal(Signal::SIGSTOP);
    kill.succeeds();
    pods[0].ended(SIDECAR);
    agent.signal(Signal::SIGCONT);
    let why = released(&agent, &pods[0]);
    assert!(why.starts_with("its limit has passed"), "{why}");
}
