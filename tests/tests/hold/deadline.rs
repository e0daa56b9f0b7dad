//! A sidecar that is not ready in time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Pod, PodSpec};
use usher_tests::wait::slower;

use crate::{
    FAR, SIDECAR, armed, client, connected, eventually, has_table, holding, nft, opened, pod,
    ready, ready_on_command, reason, refused, waits,
};

/// Within this time after the end of the agent, connections that stay held after the deadline are released.
const LEASE: Duration = Duration::from_secs(20);

fn brief(name: &str) -> PodSpec {
    ready_on_command(name).hold_deadline(slower(Duration::from_secs(8)))
}

#[test]
fn connections_are_released_at_the_deadline() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&brief("open"));
    refused(&pod.client_result("app"));
    let why = opened(&agent, &pod);
    assert!(
        why.contains("the sidecar is not ready at the deadline"),
        "{why}"
    );
    assert!(why.contains("1 connection had waited"), "{why}");
    assert!(!has_table(&pod));
}

/// An agent without CPU time: the kernel releases the ports, and the app has been refused and has exited before the
/// agent runs.
#[test]
fn kernel_releases_connections_at_the_deadline_and_it_is_reported() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let deadline = slower(Duration::from_secs(8));
    let pod = node.run(&ready_on_command("frozen").hold_deadline(deadline));
    waits(&pod, 1);
    agent.signal(Signal::SIGSTOP);
    refused(&pod.client_result("app"));
    agent.signal(Signal::SIGCONT);
    let why = opened(&agent, &pod);
    assert!(
        why.contains("the sidecar is not ready at the deadline"),
        "{why}"
    );
    assert!(why.contains("1 connection had waited"), "{why}");
    assert!(!has_table(&pod));
}

/// The agent stops while the image of an app is pulled, and the app runs unheld when it continues.
#[test]
fn app_that_the_kernel_has_released_is_not_held_again() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let deadline = slower(Duration::from_secs(8));
    let app = ContainerSpec::client("app", Client::to(FAR).shrugging().staying());
    let slow_image = pod("slow-image", app.later(), mesh::proxy(Listen::OnCommand));
    let pod = node.create(&slow_image.hold_deadline(deadline));
    armed(&agent, &pod);
    agent.signal(Signal::SIGSTOP);
    pod.start("app");
    refused(&pod.client_result_so_far("app", 1));
    agent.signal(Signal::SIGCONT);
    let continued = Instant::now();
    let why = opened(&agent, &pod);
    assert!(
        why.contains("the sidecar is not ready at the deadline"),
        "{why}"
    );
    // Another deadline has not passed.
    assert!(continued.elapsed() < deadline);
    assert!(!has_table(&pod));
}

/// usher's own readiness probes are not connections of the app, however often the sidecar answers that it is not ready.
#[test]
fn own_probes_are_not_counted() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let proxy = mesh::never_ready();
    // Long enough for the probes on a busy machine.
    let deadline = slower(Duration::from_secs(10));
    let pod = node.run(&pod("unready", client(FAR), proxy).hold_deadline(deadline));
    waits(&pod, 1);
    eventually("readiness probes", || pod.requests(SIDECAR).len() >= 20);
    agent.signal(Signal::SIGSTOP);
    refused(&pod.client_result("app"));
    agent.signal(Signal::SIGCONT);
    let why = opened(&agent, &pod);
    assert!(why.contains("1 connection had waited"), "{why}");
}

#[test]
fn connections_stay_held_after_the_deadline_when_configured() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&brief("closed").annotation("usher.dev/on-deadline", "closed"));
    reason(&agent, "hold-extended", &pod);
    assert!(pod.end_so_far("app").is_none());
    assert!(has_table(&pod));
    ready(&pod);
    connected(&pod.client_result("app"), 1);
    opened(&agent, &pod);
}

/// The kernel releases the ports when no agent renews their timeout.
#[test]
fn hold_that_stays_closed_ends_with_its_lease_without_an_agent() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&brief("lease").annotation("usher.dev/on-deadline", "closed"));
    reason(&agent, "hold-extended", &pod);
    agent.kill();
    let lease = left(&pod);
    // The worker may have begun it a little later.
    assert!(lease <= LEASE + Duration::from_secs(2), "{lease:?}");
    refused(&pod.client_result("app"));
}

/// The remaining timeout of the pod's held ports in the kernel.
fn left(pod: &Pod) -> Duration {
    let set = nft(pod, &["list", "set", "inet", "usher", "held"]);
    let (_before, left) = set.split_once("expires ").expect("an element that expires");
    let left = left.split([' ', '}', '\n']).next().unwrap();
    usher_core::base::duration::parse(left).unwrap()
}

#[test]
fn deadline_starts_with_the_first_app() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let proxy = mesh::proxy(Listen::OnCommand);
    let late = pod("slow-image", client(FAR).later(), proxy);
    let pod = node.create(&late.hold_deadline(slower(Duration::from_secs(10))));
    armed(&agent, &pod);
    let before = Cell::new(left(&pod));
    for _ in 0..3 {
        eventually("the kernel to be updated", || {
            let now = left(&pod);
            before.replace(now) < now
        });
    }
    pod.start("app");
    waits(&pod, 1);
    ready(&pod);
    connected(&pod.client_result("app"), 1);
    let why = opened(&agent, &pod);
    assert!(why.contains("1 connection had waited"), "{why}");
}
