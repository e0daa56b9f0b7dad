//! The real agent, the real plugin and real connections: the result of an app's first connection,
//! in any start order.
//!
//! Needs root, built binaries (`cargo build -p usher-agent -p usher-cni`) and
//! the programs `ip`, `nft` and `nsenter`. An app here connects once, at its
//! first instruction, and exits with 1 if that fails.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod connect;
mod deadline;
mod faults;
mod flood;
mod init;
mod leaks;
mod life;
mod local;
mod mode;
mod owner;
mod worker;

use std::process::Command;
use std::time::Duration;

use usher_tests::privilege;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Capture, Client, Listen};
use usher_tests::synthetic::{Agent, ClientResult, ContainerSpec, Node, Pod, PodSpec};

const SIDECAR: &str = "istio-proxy";
/// A remote address without a listener.
const FAR: &str = "10.7.7.7:8080";
const FAR6: &str = "[fd07::7]:8080";
/// A start of the sidecar that is late for every app.
const LATE: Listen = Listen::After(Duration::from_millis(300));
const REFUSED: i32 = nix::libc::ECONNREFUSED;

/// A node with the hold of connections enabled; None if tests are skipped here.
fn holding() -> Option<Node> {
    node("enforce")
}

fn node(mode: &str) -> Option<Node> {
    privilege::granted_with(&["nft", "nsenter"]).then(|| {
        let node = Node::new();
        node.annotate(&[("usher.dev/hold", mode)]);
        node
    })
}

fn client(to: &str) -> ContainerSpec {
    ContainerSpec::client("app", Client::to(to))
}

fn pod(name: &str, app: ContainerSpec, proxy: ContainerSpec) -> PodSpec {
    PodSpec::new(name)
        .with(app)
        .with(proxy)
        .captured(Capture::default())
        .announced()
}

/// The same, with one connection and a late sidecar.
fn late(name: &str) -> PodSpec {
    pod(name, client(FAR), mesh::proxy(LATE))
}

/// A pod with a sidecar that becomes ready on command.
fn ready_on_command(name: &str) -> PodSpec {
    pod(name, client(FAR), mesh::proxy(Listen::OnCommand))
}

/// Every connection succeeded at the first attempt.
fn connected(result: &ClientResult, connections: usize) {
    assert_eq!(result.failed, [], "{result:?}");
    assert_eq!(result.connected_ns.len(), connections, "{result:?}");
    assert_eq!(result.code, 0, "{result:?}");
}

/// Every connection was refused: there was no listener.
fn refused(result: &ClientResult) {
    assert_eq!(result.connected_ns.len(), 0, "{result:?}");
    assert_eq!(result.failed.len(), 1, "{result:?}");
    assert_eq!(result.failed[0].0, REFUSED, "{result:?}");
}

/// The time at which a sidecar started to listen on a port.
fn listens_ns(pod: &Pod, container: &str, port: u16) -> u64 {
    let line = pod.wait_line(container, &format!("listening {port} "));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The pod's connections are held.
fn armed(agent: &Agent, pod: &Pod) {
    agent.wait_for("hold-armed", &pod.name());
}

/// This number of its connections has reached the table, and waits.
fn waits(pod: &Pod, connections: usize) {
    eventually("connections to wait", || dropped(pod) >= connections);
}

/// The packets that the table has dropped.
fn dropped(pod: &Pod) -> usize {
    let table = nft(pod, &["list", "table", "inet", "usher"]);
    let counters = table.split("counter packets ").skip(1);
    let packets = counters.filter_map(|counter| counter.split(' ').next()?.parse::<usize>().ok());
    packets.sum()
}

/// Makes its sidecar ready.
fn ready(pod: &Pod) {
    pod.send_line(SIDECAR, "listen");
}

/// The reason for the release of its ports.
fn opened(agent: &Agent, pod: &Pod) -> String {
    reason(agent, "hold-released", pod)
}

fn reason(agent: &Agent, decision: &str, pod: &Pod) -> String {
    let line = agent.wait_for(decision, &pod.name());
    line["reason"].as_str().unwrap().to_owned()
}

/// The output of the `nft` program in a pod's network namespace.
fn nft(pod: &Pod, words: &[&str]) -> String {
    let output = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .arg("nft")
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn has_table(pod: &Pod) -> bool {
    nft(pod, &["list", "tables"]).contains("table inet usher")
}
