//! Apps with a pre-stop time: their stop signal waits, whether they have a sidecar or not.

use std::time::{Duration, Instant};

use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec};

use crate::{APP, is, is_armed, lingering, pod, reason};

const TIME: Duration = Duration::from_secs(3);

pub(crate) fn armed(agent: &Agent, id: &str) {
    usher_tests::synthetic::clock::eventually("an armed app", || {
        agent.log().count(|line| is_armed(line, id)) > 0
    });
}

fn requested(spec: PodSpec) -> PodSpec {
    with_time(spec, TIME)
}

fn with_time(spec: PodSpec, time: Duration) -> PodSpec {
    spec.annotation("usher.dev/pre-stop", &format!("{}s", time.as_secs()))
}

#[test]
fn signal_of_the_app_waits() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let bare = PodSpec::new("bare").with(ContainerSpec::app(APP));
    let pods = node.run_all(&[requested(bare), requested(pod("meshed"))]);
    for pod in &pods {
        state.add(pod, APP);
    }
    let agent = Agent::start_with(&node, &[state.flag()]);
    for pod in &pods {
        armed(&agent, &pod.id(APP));
        pod.mark_deleted();
        let sent = Instant::now();
        let kill = state.kill(pod, APP, "15");
        reason(&agent, "pre-stop-held", pod);
        kill.succeeds();
        assert!(sent.elapsed() >= TIME);
        let why = reason(&agent, "pre-stop-released", pod);
        assert!(why.starts_with("its pre-stop time has passed"), "{why}");
    }
}

/// A liveness restart.
#[test]
fn restart_of_the_app_is_not_held() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let spec = pod("restart").annotation("usher.dev/pre-stop", "30s");
    let pod = node.run(&spec);
    state.add(&pod, APP);
    let agent = Agent::start_with(&node, &[state.flag()]);
    armed(&agent, &pod.id(APP));
    state.kill(&pod, APP, "15").succeeds();
    let why = reason(&agent, "pre-stop-released", &pod);
    assert!(why.starts_with("the pod is not being deleted"), "{why}");
}

#[test]
fn agent_killed() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let spec = pod("killed").annotation("usher.dev/pre-stop", "20s");
    let pod = node.run(&spec);
    state.add(&pod, APP);
    let agent = Agent::start_with(&node, &[state.flag()]);
    armed(&agent, &pod.id(APP));
    pod.mark_deleted();
    let kill = state.kill(&pod, APP, "15");
    reason(&agent, "pre-stop-held", &pod);
    assert_eq!(agent.log().count(|line| is(line, "linger-held", &pod)), 0);
    agent.kill();
    kill.succeeds();
}

/// SIGTERM does not end it. The grace period of a synthetic deletion is 30 s. If it began with the release, the app would end later
/// by the pre-stop time.
#[test]
fn app_that_ignores_its_signal_is_killed_with_the_grace_period() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let time = Duration::from_secs(12);
    let pod = node.run(&with_time(pod("ignores"), time));
    state.add(&pod, APP);
    let agent = Agent::start_with(&node, &[state.flag()]);
    armed(&agent, &pod.id(APP));
    pod.mark_deleted();
    let deleted = Instant::now();
    state.kill(&pod, APP, "15").succeeds();
    pod.ended(APP);
    let took = deleted.elapsed();
    let (grace, rounded) = (Duration::from_secs(30), Duration::from_secs(2));
    assert!(
        grace - rounded < took && took < grace + time - rounded,
        "{took:?}"
    );
    reason(&agent, "linger-killed", &pod);
}
