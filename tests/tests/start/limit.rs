//! The kubelet counts the probes of a held container.

use usher_tests::synthetic::{Agent, Probe, ProbeKind};

use crate::{
    APP, app, connected, count, held, holding, is_held_until_ready, pod, proxy, ready, reason,
    release_reason,
};

const KINDS: [(ProbeKind, &str); 2] = [
    (ProbeKind::Liveness, "livenessProbe"),
    (ProbeKind::Startup, "startupProbe"),
];

#[test]
fn released_before_the_probe_kills_it() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for (kind, word) in KINDS {
        let app = app(APP).probe(Probe::http(kind, 10));
        let pod = node.create(&pod(&word.to_lowercase()).with(app).with(proxy()));
        held(&agent, &pod);
        // The limit is reported beforehand.
        for decision in ["hold-armed", "start-held"] {
            let limit = reason(&agent, decision, &pod);
            assert!(limit.contains(word), "{limit}");
        }
        pod.first_instruction(APP);
        let why = release_reason(&agent, &pod);
        assert!(why.contains("limit"), "{why}");
        // The connection of the app is still held.
        assert_eq!(count(&agent, "hold-released", &pod), 0);
        ready(&pod);
        connected(&pod.client_result_so_far(APP, 1));
    }
}

#[test]
fn probe_without_time_for_a_hold() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for (kind, word) in KINDS {
        let app = app(APP).probe(Probe::http(kind, 1));
        let pod = node.create(&pod(&word.to_lowercase()).with(app).with(proxy()));
        let why = reason(&agent, "start-not-held", &pod);
        assert!(why.contains(word), "{why}");
        pod.first_instruction(APP);
        ready(&pod);
        connected(&pod.client_result_so_far(APP, 1));
    }
}

#[test]
fn patient_probe() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let app = app(APP).probe(Probe::http(ProbeKind::Liveness, 600));
    is_held_until_ready(
        &agent,
        &node.create(&pod("patient").with(app).with(proxy())),
    );
}

/// Only the container that has the probe is released.
#[test]
fn each_container_has_its_own_limit() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let tight = app("tight").probe(Probe::http(ProbeKind::Liveness, 6));
    let pod = node.create(&pod("each").with(app(APP)).with(tight).with(proxy()));
    held(&agent, &pod);
    pod.first_instruction("tight");
    assert!(!pod.has_run(APP));
    ready(&pod);
    crate::ran_after_the_proxy(&pod);
}
