//! Conditions of the real runtime that a stop signal meets. docs/linger.md lists them.

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::{dapr, istio};
use usher_tests::synthetic::spec::RestartPolicy;
use usher_tests::synthetic::wire::Listen;
use usher_tests::synthetic::{Agent, Pod};

use crate::{APP, SIDECAR, held, is, is_armed, lingering, one, pod, pod_with, released};
use usher_tests::synthetic::runtime::StateDir;

const HELPER: &str = "daprd";

/// `STOPSIGNAL SIGQUIT` of an image: the runtime passes the name. The stand-in is process 1 of a pid namespace and has no
/// handler for it, so it runs on.
#[test]
fn any_stop_signal_waits() {
    let Some((_node, state, agent, pod)) = one("quit") else {
        return;
    };
    pod.mark_deleted();
    let mut kill = state.kill(&pod, SIDECAR, "QUIT");
    crate::reason(&agent, "linger-held", &pod);
    assert!(!kill.has_ended());
    pod.finish(APP, 0);
    kill.succeeds();
    let why = released(&agent, &pod);
    assert!(why.starts_with("no app of the pod runs"), "{why}");
}

/// As after a restart of containerd or the kubelet.
#[test]
fn second_stop_command_is_not_held() {
    let Some((_node, state, agent, pod)) = one("second") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    state.kill(&pod, SIDECAR, "15").succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("the sidecar ended"), "{why}");
    drop(kill);
}

/// A signal that the runtime does not send: of the sidecar's own preStop hook, or of a process in it.
#[test]
fn signal_from_inside_is_not_held() {
    let Some((_node, state, agent, pod)) = one("inside") else {
        return;
    };
    let kill = held(&state, &agent, &pod);
    pod.signal(SIDECAR, Signal::SIGTERM);
    pod.ended(SIDECAR);
    let why = released(&agent, &pod);
    assert!(why.starts_with("the sidecar ended"), "{why}");
    drop(kill);
}

/// In back-off when the pod is deleted: the kubelet does not start it again.
#[test]
fn app_that_does_not_run_again_is_not_waited_for() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let specs = [pod("back-off").policy(RestartPolicy::Always)];
    let (agent, pods) = crate::armed(&node, &state, &specs);
    let pod = &pods[0];
    pod.finish(APP, 1);
    pod.ended(APP);
    pod.mark_deleted();
    state.kill(pod, SIDECAR, "15").succeeds();
    pod.ended(SIDECAR);
    let why = released(&agent, pod);
    assert!(why.starts_with("no app of the pod runs"), "{why}");
}

/// Its signal begins work that others wait for.
#[test]
fn recipe_that_needs_its_signal_at_once_is_not_held() {
    let Some((node, state)) = lingering() else {
        return;
    };
    node.configure(
        "recipes: [{name: dapr, recognize: [{name: [daprd]}], quit: [{signal: SIGTERM, code: 0}], linger: never}]",
    );
    let spec = pod("queue").with(dapr::starting(Listen::AtOnce));
    let pod = node.run(&spec);
    let agent = Agent::start_with(&node, &[add_all(&state, &pod)]);
    crate::wait_armed(&agent, &pod, 1);
    pod.mark_deleted();
    state.kill(&pod, HELPER, "15").succeeds();
    pod.ended(HELPER);
    assert_eq!(agent.log().count(|line| is(line, "linger-held", &pod)), 0);
}

/// The helper ignores its signal, so the mesh proxy waits for its end.
#[test]
fn mesh_proxy_waits_for_the_helper() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let helper = dapr::starting(Listen::AtOnce).deaf_to_term();
    let spec = pod_with("order", istio::v1_26().container).with(helper);
    let pod = node.run(&spec);
    let other = node.run(&pod_with("other", istio::v1_26().container));
    state.add(&other, SIDECAR);
    let agent = Agent::start_with(&node, &[add_all(&state, &pod)]);
    for (pod, name) in [(&pod, SIDECAR), (&pod, HELPER), (&other, SIDECAR)] {
        wait_armed(&agent, pod, name);
    }
    let mut of_proxy = held(&state, &agent, &pod);
    let of_helper = state.kill(&pod, HELPER, "15");
    agent.wait_metric("usher_held_stop_signals", "", |held| held > 1.5);
    pod.finish(APP, 0);
    of_helper.succeeds();
    // A release that would be wrong comes before that of another pod.
    let of_other = held(&state, &agent, &other);
    other.finish(APP, 0);
    of_other.succeeds();
    assert!(!of_proxy.has_ended());
    pod.signal(HELPER, Signal::SIGKILL);
    of_proxy.succeeds();
    pod.ended(SIDECAR);
}

fn add_all(state: &StateDir, pod: &Pod) -> String {
    for container in [APP, SIDECAR, HELPER] {
        state.add(pod, container);
    }
    state.flag()
}

fn wait_armed(agent: &Agent, pod: &Pod, container: &str) {
    let id = pod.id(container);
    usher_tests::synthetic::clock::eventually("an armed sidecar", || {
        agent.log().count(|line| is_armed(line, &id)) > 0
    });
}
