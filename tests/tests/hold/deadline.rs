//! A sidecar that is not ready in time.

use std::cell::Cell;
use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::Listen;
use usher_tests::synthetic::{Agent, Pod, PodSpec};
use usher_tests::wait::slower;

use crate::{
    FAR, armed, client, connected, eventually, has_table, holding, nft, opened, pod, ready, reason,
    refused, told, waits,
};

fn brief(name: &str) -> PodSpec {
    told(name).hold_deadline(slower(Duration::from_secs(2)))
}

#[test]
fn at_the_deadline_connections_go() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&brief("open"));
    refused(&pod.visit("app"));
    let why = opened(&agent, &pod);
    assert!(why.contains("the deadline has come"), "{why}");
    assert!(why.contains("1 connection had waited"), "{why}");
    assert!(!has_table(&pod));
}

/// An agent that gets no time: the kernel opens the doors, and the app has been refused and has ended before anybody looks.
#[test]
fn at_the_deadline_the_kernel_lets_connections_go_and_that_is_told() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let deadline = slower(Duration::from_secs(4));
    let pod = node.run(&told("frozen").hold_deadline(deadline));
    waits(&pod, 1);
    agent.signal(Signal::SIGSTOP);
    refused(&pod.visit("app"));
    agent.signal(Signal::SIGCONT);
    let why = opened(&agent, &pod);
    assert!(why.contains("the deadline has come"), "{why}");
    assert!(why.contains("1 connection had waited"), "{why}");
    assert!(!has_table(&pod));
}

#[test]
fn where_that_is_asked_for_they_wait_on() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&brief("closed").annotation("usher.dev/on-deadline", "closed"));
    reason(&agent, "hold-stays-shut", &pod);
    assert!(pod.end_so_far("app").is_none());
    assert!(has_table(&pod));
    ready(&pod);
    connected(&pod.visit("app"), 1);
    opened(&agent, &pod);
}

/// How long the kernel keeps the doors of a pod shut by itself.
fn left(pod: &Pod) -> Duration {
    let set = nft(pod, &["list", "set", "inet", "usher", "held"]);
    let (_before, left) = set.split_once("expires ").expect("an element that expires");
    let left = left.split([' ', '}', '\n']).next().unwrap();
    usher_core::base::duration::parse(left).unwrap()
}

#[test]
fn while_no_app_has_started_the_deadline_does_not_count() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let proxy = mesh::proxy(Listen::WhenTold);
    let late = pod("slow-image", client(FAR).later(), proxy);
    let pod = node.create(&late.hold_deadline(slower(Duration::from_secs(10))));
    armed(&agent, &pod);
    let before = Cell::new(left(&pod));
    for _ in 0..3 {
        eventually("the kernel to be told again", || {
            let now = left(&pod);
            before.replace(now) < now
        });
    }
    pod.start("app");
    waits(&pod, 1);
    ready(&pod);
    connected(&pod.visit("app"), 1);
    let why = opened(&agent, &pod);
    assert!(why.contains("1 connection had waited"), "{why}");
}
