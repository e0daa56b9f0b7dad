//! The containers that are held, and the end of the hold.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::{cloud_sql, dapr};
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Capture, Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec, RestartPolicy};
use usher_tests::wait::slower;

use crate::{
    APP, FAR, PACE, SIDECAR, app, connected, count, held, holding, is_held_until_ready, listens_ns,
    meanwhile, nothing_is_held, pod, proxy, ran_after_the_proxy, ready, ready_on_command, refused,
    release_reason,
};

#[test]
fn every_sidecar_position() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let app_first = node.create(&pod("app-first").with(app(APP)).with(proxy().later()));
    held(&agent, &app_first);
    app_first.start(SIDECAR);
    is_held_until_ready(&agent, &app_first);
    let last = node.create(&pod("app-last").with(proxy()).with(app(APP).later()));
    last.wait_container(SIDECAR);
    last.start(APP);
    is_held_until_ready(&agent, &last);
}

#[test]
fn every_restart_policy() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for policy in [RestartPolicy::OnFailure, RestartPolicy::Always] {
        let pod = node.create(&ready_on_command(policy.name()).policy(policy));
        is_held_until_ready(&agent, &pod);
    }
}

#[test]
fn start_is_held_only_when_enabled() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("connect")
        .with(app(APP))
        .with(proxy())
        .captured(Capture::default())
        .announced();
    let pod = node.create(&spec);
    // The proxy is not ready yet.
    pod.first_instruction(APP);
    ready(&pod);
    connected(&pod.client_result_so_far(APP, 1));
    assert_eq!(count(&agent, "start-held", &pod), 0);
    assert_eq!(count(&agent, "start-missed", &pod), 0);
}

/// The sidecar, which all starts wait for, and the containers before it are not held.
#[test]
fn sidecar_and_init_containers_are_not_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let migrates = ContainerSpec::client("migrate", Client::to(FAR).shrugging());
    let spec = pod("inits")
        .init(ContainerSpec::capture(Capture::default()))
        .init(migrates)
        .with(app(APP))
        .with(app("second"))
        .with(proxy());
    let spec = PodSpec {
        capture: None,
        ..spec
    };
    let pod = node.create(&spec);
    pod.initialize();
    pod.first_instruction(SIDECAR);
    held(&agent, &pod);
    eventually("the hold of the other", || {
        count(&agent, "start-held", &pod) == 2
    });
    assert!(!pod.has_run("second"));
    assert_eq!(pod.ended("migrate").code(), 0);
    ready(&pod);
    ran_after_the_proxy(&pod);
    pod.first_instruction("second");
    assert_eq!(count(&agent, "start-held", &pod), 2);
}

#[test]
fn restarted_app_is_not_held_when_the_proxy_is_ready() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("restarted").policy(RestartPolicy::Always));
    is_held_until_ready(&agent, &pod);
    pod.finish(APP, 1);
    pod.restart(APP);
    connected(&pod.client_result_so_far(APP, 1));
    assert_eq!(count(&agent, "start-held", &pod), 1);
}

/// A listener makes the sidecar ready; nothing is captured.
#[test]
fn alongside_a_database_proxy() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let client = ContainerSpec::client(APP, Client::to("127.0.0.1:5432").staying()).pace(PACE);
    let spec = PodSpec::new("database")
        .with(client)
        .with(cloud_sql::serving(Listen::OnCommand))
        .announced()
        .annotation("usher.dev/hold", "start")
        .annotation("usher.dev/hold-deadline", "5m");
    let pod = node.create(&spec);
    held(&agent, &pod);
    pod.send_line("cloud-sql-proxy", "listen");
    let ran = pod.first_instruction(APP);
    assert!(ran >= listens_ns(&pod, "cloud-sql-proxy", 5432));
    connected(&pod.client_result_so_far(APP, 1));
}

#[test]
fn waits_for_both_sidecars() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("two").with(dapr::starting(Listen::OnCommand)));
    held(&agent, &pod);
    ready(&pod);
    listens_ns(&pod, SIDECAR, 15021);
    meanwhile(&node, &agent, "other");
    assert!(!pod.has_run(APP), "one sidecar is not ready");
    pod.send_line("daprd", "listen");
    let ran = pod.first_instruction(APP);
    assert!(ran >= listens_ns(&pod, "daprd", 50001));
}

#[test]
fn deadline() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod =
        node.create(&ready_on_command("deadline").hold_deadline(slower(Duration::from_secs(8))));
    held(&agent, &pod);
    pod.first_instruction(APP);
    let why = release_reason(&agent, &pod);
    assert!(why.contains("deadline"), "{why}");
    refused(&pod.client_result_so_far(APP, 1));
}

#[test]
fn deleted_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("deleted"));
    held(&agent, &pod);
    pod.mark_deleted();
    // A new pod makes the agent read the list, with the deletion.
    let other = node.create(&ready_on_command("other"));
    pod.first_instruction(APP);
    let why = release_reason(&agent, &pod);
    assert!(why.contains("being deleted"), "{why}");
    is_held_until_ready(&agent, &other);
}

#[test]
fn removed_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("gone"));
    held(&agent, &pod);
    drop(pod);
    nothing_is_held(&agent);
    meanwhile(&node, &agent, "next");
}

/// One thread of the held process exits with 2, as in runc's init process.
#[test]
fn signalled_while_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for (signal, code) in [(Signal::SIGTERM, 2), (Signal::SIGKILL, 137)] {
        let pod = node.create(&ready_on_command(signal.as_str()));
        held(&agent, &pod);
        pod.signal(APP, signal);
        assert_eq!(pod.ended(APP).code(), code);
        assert!(!pod.has_run(APP));
        nothing_is_held(&agent);
    }
    meanwhile(&node, &agent, "next");
}

/// The app's next run is held again: the proxy is not ready yet.
#[test]
fn restarted_while_the_proxy_is_not_ready() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("again").policy(RestartPolicy::Always));
    held(&agent, &pod);
    pod.signal(APP, Signal::SIGKILL);
    pod.restart(APP);
    eventually("the second hold", || count(&agent, "start-held", &pod) == 2);
    assert!(!pod.has_run(APP));
    ready(&pod);
    ran_after_the_proxy(&pod);
}
