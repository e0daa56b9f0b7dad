//! Drain of inbound connections while the stop signal of a sidecar waits.

use usher_tests::synthetic::catalog::istio;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{ContainerSpec, Pod};

use crate::{APP, SIDECAR, armed, held, is, lingering, pod_with, reason, released};

/// Port, method and path of the drain requests to the sidecar.
fn drains(pod: &Pod) -> Vec<(u16, String)> {
    let requests = pod.requests(SIDECAR).into_iter();
    requests
        .map(|request| (request.port, request.line))
        .filter(|(_port, line)| line.contains("/drain"))
        .collect()
}

/// By version: pilot-agent's endpoint, or Envoy's. Both leave the listeners for outbound connections open, and Envoy running.
#[test]
fn sidecar_drains_while_it_lingers() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let envoy = "POST /drain_listeners?inboundonly&graceful&skip_exit HTTP/1.1";
    let kinds = [
        (istio::v1_26(), 15_020, "POST /drain HTTP/1.1"),
        (istio::v1_20(), 15_000, envoy),
    ];
    let specs: Vec<_> = kinds
        .iter()
        .map(|(stand_in, port, _line)| {
            pod_with(&format!("drains-{port}"), stand_in.container.clone())
        })
        .collect();
    let (agent, pods) = armed(&node, &state, &specs);
    for (pod, (_stand_in, port, line)) in pods.iter().zip(kinds) {
        let mut kill = held(&state, &agent, pod);
        let why = reason(&agent, "linger-drained", pod);
        assert!(why.contains("was accepted"), "{why}");
        // The line of the sidecar may arrive later than that of the agent.
        eventually("the drain request", || !drains(pod).is_empty());
        assert_eq!(drains(pod), [(port, line.to_owned())]);
        assert!(!kill.has_ended());
        assert!(pod.end_so_far(SIDECAR).is_none());
        pod.finish(APP, 0);
        kill.succeeds();
        pod.ended(SIDECAR);
        assert_eq!(drains(pod).len(), 1);
    }
}

/// The stop signal waits as without a drain.
#[test]
fn failed_drain_costs_nothing() {
    let Some((node, state)) = lingering() else {
        return;
    };
    let manners = [
        ("hangs", Manner::Hang),
        ("rejects", Manner::Status(503)),
        ("resets", Manner::Reset),
    ];
    let specs = manners.map(|(name, manner)| pod_with(name, ContainerSpec::istio(manner)));
    let (agent, pods) = armed(&node, &state, &specs);
    for pod in &pods {
        let mut kill = held(&state, &agent, pod);
        let why = reason(&agent, "linger-drain-failed", pod);
        assert!(why.starts_with("POST :15020/drain"), "{why}");
        assert!(!kill.has_ended());
        pod.finish(APP, 0);
        kill.succeeds();
        pod.ended(SIDECAR);
        let why = released(&agent, pod);
        assert!(why.starts_with("no app of the pod runs"), "{why}");
    }
}

/// A liveness restart: the sidecar has its stop signal as soon as the kubelet has replied.
#[test]
fn restarted_sidecar_is_not_drained() {
    let Some((_node, state, agent, pod)) = crate::one("restarted") else {
        return;
    };
    state.kill(&pod, SIDECAR, "15").succeeds();
    released(&agent, &pod);
    pod.ended(SIDECAR);
    assert_eq!(drains(&pod), []);
    for decision in ["linger-drained", "linger-drain-failed"] {
        assert_eq!(agent.log().count(|line| is(line, decision, &pod)), 0);
    }
}
