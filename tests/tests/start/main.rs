//! The real agent and the starts of real processes: the time of an app's first
//! instruction with late sidecars.
//!
//! Needs root, built binaries (`cargo build -p usher-agent -p usher-cni`) and
//! the programs `ip`, `nft` and `nsenter`. The runtime of the node exposes its
//! containers as containerd does. An app here stamps its first instruction and
//! connects at once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod denied;
mod entry;
mod exec;
mod faults;
mod hostile;
mod leaks;
mod life;
mod limit;
mod mode;
mod place;

use std::time::Duration;

use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Capture, Client, Listen, Pace};
use usher_tests::synthetic::{Agent, ClientResult, ContainerSpec, Node, Pod, PodSpec};

const APP: &str = "app";
const SIDECAR: &str = "istio-proxy";
/// A remote address without a listener.
const FAR: &str = "10.7.7.7:8080";

/// A node that holds starts if pods request it; None if tests are
/// skipped here.
fn holding() -> Option<Node> {
    node("enforce")
}

fn node(mode: &str) -> Option<Node> {
    privilege::granted_with(&["nft", "nsenter", "setpriv"]).then(|| {
        let node = Node::with_bundles();
        node.annotate(&[("usher.dev/hold", mode)]);
        node
    })
}

/// A runtime that is slow enough for a debug build on a busy
/// machine. The cluster tests measure the real time.
const PACE: Pace = Pace {
    create: Duration::from_millis(400),
    exec: Duration::from_millis(400),
    ..Pace::CONTAINERD
};

/// An app that connects once and runs on.
fn app(name: &str) -> ContainerSpec {
    ContainerSpec::client(name, Client::to(FAR).staying()).pace(PACE)
}

/// A mesh's proxy that becomes ready on command.
fn proxy() -> ContainerSpec {
    mesh::proxy(Listen::OnCommand)
}

/// A pod that a mesh captures, with a requested hold of its start.
fn pod(name: &str) -> PodSpec {
    PodSpec::new(name)
        .captured(Capture::default())
        .announced()
        .annotation("usher.dev/hold", "start")
        // A slow machine must release no start.
        .annotation("usher.dev/hold-deadline", "5m")
}

/// The same with an app and a proxy that becomes ready on command.
fn ready_on_command(name: &str) -> PodSpec {
    pod(name).with(app(APP)).with(proxy())
}

/// The app has been started, and is held before its first instruction.
fn held(agent: &Agent, pod: &Pod) {
    pod.started(APP);
    reason(agent, "start-held", pod);
    assert!(!pod.has_run(APP), "{} was not held", pod.name());
}

/// Makes the mesh's proxy ready.
fn ready(pod: &Pod) {
    pod.send_line(SIDECAR, "listen");
}

/// Its first instruction came after the proxy was ready, and its connection
/// went through the proxy.
fn ran_after_the_proxy(pod: &Pod) {
    let ran = pod.first_instruction(APP);
    assert!(ran >= listens_ns(pod, SIDECAR, mesh::READY_PORT));
    connected(&pod.client_result_so_far(APP, 1));
}

/// A whole hold: held, then released because all sidecars are ready.
fn is_held_until_ready(agent: &Agent, pod: &Pod) {
    held(agent, pod);
    ready(pod);
    ran_after_the_proxy(pod);
    let why = release_reason(agent, pod);
    assert!(why.contains("ready"), "{why}");
}

/// A whole hold of another pod: all earlier events have been processed.
fn meanwhile(node: &Node, agent: &Agent, name: &str) {
    is_held_until_ready(agent, &node.create(&ready_on_command(name)));
}

/// The reason of its app's release.
fn release_reason(agent: &Agent, pod: &Pod) -> String {
    reason(agent, "start-released", pod)
}

fn reason(agent: &Agent, decision: &str, pod: &Pod) -> String {
    let what = format!("{decision} of {}", pod.name());
    agent.log().wait(&what, |line| {
        let reason = || line["reason"].as_str().unwrap().to_owned();
        is(line, decision, pod).then(reason)
    })
}

/// Whether a log line is this decision about this pod. Pods of the same name exist one after the other.
fn is(line: &Value, decision: &str, pod: &Pod) -> bool {
    line["decision"] == decision && line["uid"] == pod.uid()
}

/// The number of log lines with this decision about this pod.
fn count(agent: &Agent, decision: &str, pod: &Pod) -> usize {
    agent.log().count(|line| is(line, decision, pod))
}

fn connected(result: &ClientResult) {
    assert_eq!(result.failed, [], "{result:?}");
    assert_eq!(result.connected_ns.len(), 1, "{result:?}");
}

fn refused(result: &ClientResult) {
    assert_eq!(result.connected_ns.len(), 0, "{result:?}");
    let errors: Vec<i32> = result.failed.iter().map(|(errno, _)| *errno).collect();
    assert_eq!(errors, [nix::libc::ECONNREFUSED], "{result:?}");
}

/// The time at which a sidecar started to listen on a port.
fn listens_ns(pod: &Pod, container: &str, port: u16) -> u64 {
    let line = pod.wait_line(container, &format!("listening {port} "));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits until nothing is held.
fn nothing_is_held(agent: &Agent) {
    agent.wait_metric("usher_held_starts", "", |starts| starts < 0.5);
}
