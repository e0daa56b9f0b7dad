//! Pods that are deleted: the kubelet sends SIGTERM to all containers at the same time, and lists the deletion before.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::{
    synthetic::{
        Agent, Node, Pod,
        catalog::{StandIn, istio, linkerd},
        spec::RestartPolicy,
        wire::{Program, Reaction},
    },
    wait::{found_within, patience, slower},
};

use crate::{enforcing, received, terms};

const PROXY: &str = "istio-proxy";
const QUIT: &str = "POST /quitquitquit";
/// The drain of a sidecar that the agent ends: far longer than the agent needs on a busy machine.
const LONG_DRAIN: Duration = Duration::from_secs(30);
/// The drain of a sidecar that the agent only observes.
const DRAIN: Duration = Duration::from_secs(5);

/// The same stand-in, with this time from SIGTERM to its exit.
fn draining(mut stand_in: StandIn, drain: Duration) -> StandIn {
    if let Program::Sidecar(sidecar) = &mut stand_in.container.program {
        for (_number, reaction) in &mut sidecar.signals {
            if let Reaction::End { after, .. } = reaction {
                *after = slower(drain);
            }
        }
    }
    stand_in
}

/// A pod of a Deployment with this sidecar, which the agent knows.
fn deployed(node: &Node, agent: &Agent, stand_in: StandIn, name: &str) -> Pod {
    let sidecar = stand_in.container.name.clone();
    let pod = node.run(&stand_in.job(name).policy(RestartPolicy::Always));
    for container in ["app", sidecar.as_str()] {
        let pid = pod.pid(container);
        found_within(patience(), "the agent to follow the pod", || {
            agent.watches(pid).then_some(())
        });
    }
    pod
}

/// The kubelet deletes the pod, and its app ends at once.
fn delete(pod: &Pod, sidecar: &str) {
    pod.mark_deleted();
    pod.signal(sidecar, Signal::SIGTERM);
    pod.finish("app", 0);
}

#[test]
fn istio_quits_when_the_last_app_has_ended() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    for (stand_in, name) in [(istio::v1_20(), "v1-20"), (istio::v1_26(), "v1-26")] {
        let pod = deployed(&node, &agent, draining(stand_in, LONG_DRAIN), name);
        delete(&pod, PROXY);
        assert_eq!(pod.ended(PROXY).code(), 0);
        let line = agent.wait_for("sidecar-ended", &pod.name());
        assert!(
            line["reason"].as_str().unwrap().contains("as requested"),
            "{line}"
        );
        assert_eq!(received(&pod, PROXY), [(15_000, QUIT.to_owned())]);
        assert_eq!(terms(&pod, PROXY), 1, "the agent sends no second signal");
        let decisions = agent.decisions(&pod.name());
        assert!(
            decisions.contains(&"quit-on-deletion".to_owned()),
            "{decisions:?}"
        );
    }
}

#[test]
fn sidecar_of_a_restarted_app_stays() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = deployed(&node, &agent, istio::v1_26(), "crashing");
    let before = node.kubelet().requests();
    pod.finish("app", 1);
    pod.ended("app");
    found_within(patience(), "a query of the kubelet", || {
        (node.kubelet().requests() > before).then_some(())
    });
    let deleted = deployed(&node, &agent, istio::v1_26(), "deleted");
    delete(&deleted, PROXY);
    agent.wait_for("sidecar-ended", &deleted.name());
    assert_eq!(received(&pod, PROXY), []);
    assert!(pod.end_so_far(PROXY).is_none());
}

#[test]
fn others_are_left_to_the_kubelet() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let mut gateway = istio::v1_26();
    gateway.container = gateway.container.args(&["proxy", "router"]);
    let mut waiting = istio::v1_26();
    waiting.container = waiting
        .container
        .env("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true");
    for (stand_in, name) in [
        (gateway, "gateway"),
        (waiting, "waiting"),
        (linkerd::enabled(), "linkerd"),
    ] {
        let sidecar = stand_in.container.name.clone();
        let pod = deployed(&node, &agent, stand_in, name);
        // Another pod whose deletion makes the agent query the kubelet.
        let meshed = deployed(&node, &agent, istio::v1_26(), &format!("beside-{name}"));
        pod.mark_deleted();
        pod.finish("app", 0);
        pod.ended("app");
        delete(&meshed, PROXY);
        let line = agent.wait_for("left-to-kubelet", &pod.name());
        assert_eq!(line["container"], sidecar.as_str(), "{line}");
        agent.wait_for("sidecar-ended", &meshed.name());
        assert_eq!(received(&pod, &sidecar), [], "{name}");
        assert_eq!(terms(&pod, &sidecar), 0, "{name}");
    }
}

#[test]
fn observe_mode_reports_what_enforce_would_do() {
    let Some(node) = enforcing() else { return };
    node.annotate(&[("usher.dev/mode", "observe"), ("usher.dev/hold", "off")]);
    let agent = Agent::start(&node);
    let stand_in = draining(istio::v1_26(), DRAIN);
    let pod = deployed(&node, &agent, stand_in, "observed");
    delete(&pod, PROXY);
    let line = agent.wait_for("would-quit-on-deletion", &pod.name());
    assert!(
        line["reason"]
            .as_str()
            .unwrap()
            .contains("POST :15000/quitquitquit"),
        "{line}"
    );
    assert_eq!(pod.ended(PROXY).code(), 0);
    assert_eq!(received(&pod, PROXY), []);
}
