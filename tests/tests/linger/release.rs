//! What releases a stop signal while everything works.

use usher_tests::synthetic::usher;

use crate::{APP, SIDECAR, armed, held, is, is_armed, lingering, one, pod, released, wait_armed};

#[test]
fn sidecar_outlives_the_app() {
    let Some((_node, state, agent, pod)) = one("last") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    agent.wait_metric("usher_held_stop_signals", "", |held| held > 0.5);
    // Only one stop signal waits; all other commands continue.
    state.query(&pod, SIDECAR).succeeds();
    state.query(&pod, APP).succeeds();
    pod.finish(APP, 0);
    kill.succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("no app of the pod runs"), "{why}");
    agent.wait_metric("usher_held_stop_signals", "", |held| held < 0.5);
    agent.wait_metric("usher_lingers_total", "result=\"apps-ended\"", |count| {
        count > 0.5
    });
}

#[test]
fn sigkill_is_never_held() {
    let Some((_node, state, agent, pod)) = one("kill") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    state.kill(&pod, SIDECAR, "KILL").succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("the sidecar ended"), "{why}");
    drop(kill);
}

/// The stop signal of an app is not held either.
#[test]
fn app_is_not_armed() {
    let Some((_node, state, agent, pod)) = one("app") else {
        return;
    };
    pod.mark_deleted();
    state.kill(&pod, APP, "15").succeeds();
    pod.finish(APP, 0);
    state.kill(&pod, SIDECAR, "15").succeeds();
    // Everything about the app is in the log by then.
    let why = released(&agent, &pod);
    assert!(why.starts_with("no app of the pod runs"), "{why}");
    let log = agent.log();
    let app = pod.id(APP);
    assert_eq!(log.count(|line| is_armed(line, &app)), 0);
    assert_eq!(log.count(|line| is(line, "pre-stop-held", &pod)), 0);
}

#[test]
fn pods_are_independent() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let (agent, pods) = armed(&node, &state, &[pod("first"), pod("second")]);
    let [first, second] = &pods[..] else {
        unreachable!()
    };
    let mut of_first = held(&state, &agent, first);
    let of_second = held(&state, &agent, second);
    second.finish(APP, 0);
    of_second.succeeds();
    second.ended(SIDECAR);
    assert!(!of_first.has_ended());
    first.finish(APP, 0);
    of_first.succeeds();
    first.ended(SIDECAR);
}

/// A liveness restart: the signal continues as soon as the kubelet has replied, and the next run is armed again.
#[test]
fn restart_of_the_sidecar_is_not_held() {
    let Some((_node, state, agent, pod)) = one("restart") else {
        return;
    };
    state.kill(&pod, SIDECAR, "15").succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("the pod is not being deleted"), "{why}");
}

/// An operator's `kill -HUP` by the runtime, to a pod that runs on: its later stop signal waits nevertheless.
#[test]
fn signal_before_the_deletion_is_no_problem() {
    let Some((_node, state, agent, pod)) = one("early") else {
        return;
    };
    // 23 is SIGURG, which nothing reacts to.
    state.kill(&pod, SIDECAR, "23").succeeds();
    released(&agent, &pod);
    wait_armed(&agent, &pod, 2);
    pod.mark_deleted();
    let mut kill = state.kill(&pod, SIDECAR, "15");
    agent.wait_metric("usher_held_stop_signals", "", |held| held > 0.5);
    assert!(!kill.has_ended());
    pod.finish(APP, 0);
    kill.succeeds();
    pod.ended(SIDECAR);
}

/// The holder receives the limit of the deletion while the signal waits.
#[test]
fn grace_period_of_the_deletion_is_shorter() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let spec = pod("grace").field("terminationGracePeriodSeconds", 90.into());
    let (agent, pods) = armed(&node, &state, &[spec]);
    let holder = agent.holder();
    let mut kill = held(&state, &agent, &pods[0]);
    wait_armed(&agent, &pods[0], 2);
    assert!(!kill.has_ended());
    pods[0].finish(APP, 0);
    kill.succeeds();
    pods[0].ended(SIDECAR);
    assert_eq!(agent.holder(), holder);
}

#[test]
fn operator_releases_it() {
    let Some((node, state, agent, pod)) = one("operator") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    let ran = usher::on(&node, &["release", &pod.name()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    kill.succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("an operator"), "{why}");
}
