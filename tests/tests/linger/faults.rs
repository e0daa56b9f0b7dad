//! The agent or the holder is killed or stopped while a stop signal waits: the signal continues.

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use usher_tests::synthetic::clock::eventually;

use crate::{APP, SIDECAR, armed, held, lingering, one, pod, released, wait_armed};

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

/// The worker process has no part in it.
#[test]
fn worker_killed() {
    let Some((_node, state, agent, pod)) = one("worker") else {
        return;
    };
    let mut kill = held(&state, &agent, &pod);
    let worker = agent.worker().unwrap();
    let pid = Pid::from_raw(worker.try_into().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    eventually("another worker", || {
        agent.worker().is_some_and(|other| other != worker)
    });
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
