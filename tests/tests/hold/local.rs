//! Sidecars that apps connect to directly, on loopback.

use std::time::{Duration, Instant};

use usher_tests::synthetic::catalog::{cloud_sql, dapr, mesh};
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Capture, Client, Listen, Listener, Sidecar};
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec};

use crate::{FAR, armed, client, connected, holding, opened, ready, waits};

const DATABASE: &str = "127.0.0.1:5432";
/// Dapr's gRPC port.
const STATE: &str = "127.0.0.1:50001";
/// Between the events of a pod whose waits are compared.
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(4);
/// How late the agent may receive a SYN on a busy machine: less than [`LONG`].
const LATE: Duration = Duration::from_secs(3);

fn with_sidecar(name: &str, app: ContainerSpec, sidecar: ContainerSpec) -> PodSpec {
    PodSpec::new(name).with(app).with(sidecar).announced()
}

#[test]
fn database_proxy_dapr_and_a_declared_port() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let on_command = Listen::OnCommand;
    let cache = Sidecar {
        listeners: vec![Listener::original(6379)],
        listen: on_command,
        ..Sidecar::default()
    };
    let cache = ContainerSpec::sidecar("cache", "registry.example/team/cache:1", cache);
    let declared = with_sidecar("declared", client("127.0.0.1:6379"), cache)
        .annotation("usher.dev/hold-ports", "cache=6379");
    let six = ContainerSpec::client("app", Client::to("[::1]:5432"));
    let specs = [
        with_sidecar("database", client(DATABASE), cloud_sql::serving(on_command)),
        with_sidecar("database-six", six, cloud_sql::serving(on_command)),
        with_sidecar("state", client(STATE), dapr::starting(on_command)),
        declared,
    ];
    let sidecars = ["cloud-sql-proxy", "cloud-sql-proxy", "daprd", "cache"];
    for (pod, sidecar) in node.run_all(&specs).iter().zip(sidecars) {
        waits(pod, 1);
        pod.send_line(sidecar, "listen");
        connected(&pod.client_result("app"), 1);
        // Ready, or ended before it was clear that no other port follows.
        let why = opened(&agent, pod);
        assert!(why.contains("1 connection had waited"), "{why}");
    }
}

/// Each port is released separately.
#[test]
fn two_sidecars_are_released_separately() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("two")
        .with(client(FAR))
        .with(ContainerSpec::client("stateful", Client::to(STATE)))
        .with(mesh::proxy(Listen::OnCommand))
        .with(dapr::starting(Listen::OnCommand))
        .captured(Capture::default())
        .announced();
    let pod = node.run(&spec);
    armed(&agent, &pod);
    pod.send_line("daprd", "listen");
    connected(&pod.client_result("stateful"), 1);
    assert!(pod.end_so_far("app").is_none(), "the mesh is not ready");
    ready(&pod);
    connected(&pod.client_result("app"), 1);
    opened(&agent, &pod);
}

/// The wait that the release of a pod's ports reports for its one connection.
fn waited(why: &str) -> Duration {
    let (_, waited) = why.split_once("1 connection had waited, ").expect(why);
    let milliseconds: f64 = waited.split(' ').next().unwrap().parse().expect(why);
    Duration::from_secs_f64(milliseconds / 1000.0)
}

/// The wait of a connection ends with the release of its own port, whatever other ports are released before or after.
#[test]
fn waits_are_those_of_each_port() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let spec = |name: &str, app| {
        PodSpec::new(name)
            .with(app)
            .with(mesh::proxy(Listen::OnCommand))
            .with(dapr::starting(Listen::OnCommand))
            .captured(Capture::default())
            .announced()
    };
    // Real time has to pass.
    let pause = |time: Duration| {
        let start = Instant::now();
        eventually("time to pass", || start.elapsed() > time);
    };

    let start = Instant::now();
    let pod = node.run(&spec("last", client(FAR)));
    waits(&pod, 1);
    let waiting = Instant::now();
    pause(SHORT);
    pod.send_line("daprd", "listen");
    pause(LONG);
    let at_least = waiting.elapsed();
    ready(&pod);
    connected(&pod.client_result("app"), 1);
    let why = opened(&agent, &pod);
    let wait = waited(&why);
    // Far longer than until the other port was released.
    assert!(at_least - LATE <= wait && wait <= start.elapsed(), "{why}");

    let start = Instant::now();
    let pod = node.run(&spec("first", client(STATE)).with(ContainerSpec::app("idle")));
    waits(&pod, 1);
    pod.send_line("daprd", "listen");
    connected(&pod.client_result("app"), 1);
    let at_most = start.elapsed();
    pause(SHORT);
    ready(&pod);
    let why = opened(&agent, &pod);
    assert!(waited(&why) <= at_most, "{why}");
}
