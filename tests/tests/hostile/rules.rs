//! A pod that changes the rules that hold it, and one that opens an excessive number of connections.
//!
//! The tests of the hold delete the table (`tests/tests/hold/owner.rs`).

use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use usher_tests::privilege;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Capture, Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};
use usher_tests::wait::slower;

use crate::{ATTACKERS, SIDECAR, is_sound};

/// A remote address without a listener.
const FAR: &str = "10.7.7.7:8080";
const ELEMENTS: u16 = 10_000;
/// Expressions of a rule: two for each match.
const EXPRESSIONS: usize = 40;
const RULES: usize = 2_000;
const APPS: usize = 5;
const CONNECTIONS: usize = 4_000;
/// The deadline precedes the time at which the kernel gives up the SYNs.
const CROWD_DEADLINE: Duration = Duration::from_secs(120);
/// From the readiness of another pod's sidecar to the connection and its report.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn holding() -> Option<Node> {
    privilege::granted_with(&["nft", "nsenter"]).then(|| {
        let node = Node::new();
        node.annotate(&[("usher.dev/hold", "enforce")]);
        node
    })
}

pub(crate) fn captured(
    name: &str,
    apps: impl IntoIterator<Item = ContainerSpec>,
    listen: Listen,
) -> PodSpec {
    let spec = apps.into_iter().fold(PodSpec::new(name), PodSpec::with);
    spec.with(mesh::proxy(listen))
        .captured(Capture::default())
        .announced()
}

pub(crate) fn client(name: &str, connections: usize) -> ContainerSpec {
    ContainerSpec::client(name, Client::to(FAR).times(connections).staying())
}

/// Another pod's connection waits for its sidecar, and succeeds soon, in one of three tries.
pub(crate) fn another_connects(node: &Node, agent: &Agent, name: &str) {
    let mut tries = (0..3).map(|number| connect_delay(node, agent, &format!("{name}-{number}")));
    let is_connected = tries.any(|delay| delay < slower(CONNECT_LIMIT));
    assert!(is_connected, "{name} waited in each try");
}

fn connect_delay(node: &Node, agent: &Agent, name: &str) -> Duration {
    let pod = node.run(&captured(name, [client("app", 1)], Listen::OnCommand));
    agent.wait_for("hold-armed", &pod.name());
    let begun = Instant::now();
    pod.send_line(SIDECAR, "listen");
    is_connected(&pod);
    begun.elapsed()
}

/// Connections of a pod that wait for a response
/// ([proc_pid_net(5)](https://man7.org/linux/man-pages/man5/proc_pid_net.5.html), `SYN_SENT`).
pub(crate) fn waiting(pod: &Pod, container: &str) -> usize {
    let path = format!("/proc/{}/net/tcp", pod.pid(container));
    let text = std::fs::read_to_string(path).unwrap();
    let states = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(3));
    states.filter(|state| *state == "02").count()
}

/// A program in the pod's network namespace.
pub(crate) fn nsenter(pod: &Pod, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/proc/{}/ns/net", pod.pid("app")))
        .arg(program);
    command
}

/// A script is applied completely or not at all.
fn has_chain(pod: &Pod, chain: &str) -> bool {
    let listed = nsenter(pod, "nft")
        .args(["-t", "list", "chains", "inet"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&listed.stdout).contains(&format!("chain {chain} "))
}

fn is_connected(pod: &Pod) {
    let result = pod.client_result_so_far("app", 1);
    assert_eq!(result.failed, [], "{result:?}");
}

/// Changes the rules of held pods before their sidecars are ready.
fn changes(script: &str) {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let specs: Vec<PodSpec> = (0..ATTACKERS)
        .map(|number| {
            let name = format!("changes-{number}");
            captured(&name, [client("app", 1)], Listen::OnCommand)
        })
        .collect();
    let pods = node.run_all(&specs);
    for pod in &pods {
        agent.wait_for("hold-armed", &pod.name());
        pod.filter(script);
    }
    another_connects(&node, &agent, "other");
    for pod in &pods {
        pod.send_line(SIDECAR, "listen");
    }
    for pod in &pods {
        agent.wait_for("hold-released", &pod.name());
    }
    another_connects(&node, &agent, "later");
    is_sound(&agent);
}

/// The release removes the whole table with all its contents.
#[test]
fn ten_thousand_elements_more() {
    let mut script = String::new();
    for port in 1..=ELEMENTS {
        writeln!(
            script,
            "add element inet usher held {{ {port} timeout 600s }}"
        )
        .unwrap();
    }
    changes(&script);
}

/// The table is too large for the memory of the next agent: it stays unchanged, and all other pods are processed
/// as usual.
#[test]
fn more_rules_than_the_agent_reads() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&captured("rules", [client("app", 1)], Listen::OnCommand));
    agent.wait_for("hold-armed", &pod.name());
    let rule = "meta l4proto 6 ".repeat(EXPRESSIONS);
    let mut script = String::from("add chain inet usher mine\n");
    for _number in 0..RULES {
        writeln!(script, "add rule inet usher mine {rule} accept").unwrap();
    }
    pod.filter(&script);
    eventually("the rules", || has_chain(&pod, "mine"));
    agent.kill();
    let agent = Agent::start(&node);
    another_connects(&node, &agent, "other");
    let left = |line: &serde_json::Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.contains("could not read a pod's network namespace"))
    };
    eventually("the table to be left", || agent.log().count(left) > 0);
    is_sound(&agent);
}

/// A table that only a process of the pod may change
/// ([`NFT_TABLE_F_OWNER`](https://github.com/torvalds/linux/blob/v6.12/include/uapi/linux/netfilter/nf_tables.h#L187)): its
/// port is not released, which is reported, and the kernel releases it at the deadline.
#[test]
fn table_owned_by_the_pod() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&captured("owns", [client("app", 1)], Listen::OnCommand));
    agent.wait_for("hold-armed", &pod.name());
    let mut owner = nsenter(&pod, "nft")
        .arg("--interactive")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let table = "delete table inet usher; table inet usher { flags owner; set held { type inet_service; flags timeout; \
                 elements = { 15001 timeout 10s } }; chain hold { type filter hook output priority -90; policy accept; \
                 tcp dport @held drop; }; }\n";
    let mut orders = owner.stdin.take().unwrap();
    orders.write_all(table.as_bytes()).unwrap();
    eventually("the owner's table", || !has_chain(&pod, "copy"));
    pod.send_line(SIDECAR, "listen");
    let failed = agent.wait_for("hold-failed", &pod.name());
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("cannot be released"), "{reason}");
    another_connects(&node, &agent, "other");
    // The connection succeeds in the end: the kernel does not check the owner of the table.
    is_connected(&pod);
    drop(orders);
    owner.wait().unwrap();
    is_sound(&agent);
}

/// A table of the same name without any object of usher.
#[test]
fn table_replaced_by_the_pod() {
    let script = "delete table inet usher\ntable inet usher { chain held { type filter hook output priority 0; policy accept; } }\n";
    changes(script);
}

#[test]
fn twenty_thousand_connections() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let names: Vec<String> = (0..APPS).map(|number| format!("app-{number}")).collect();
    let apps = names.iter().map(|name| client(name, CONNECTIONS));
    // A busy machine takes long to open all connections.
    let spec = captured("crowd", apps, Listen::OnCommand).hold_deadline(CROWD_DEADLINE);
    let pod = node.run(&spec);
    agent.wait_for("hold-armed", &pod.name());
    let all = APPS * CONNECTIONS;
    eventually("all connections to wait", || waiting(&pod, "app-0") >= all);
    another_connects(&node, &agent, "other");
    is_sound(&agent);
    pod.send_line(SIDECAR, "listen");
    agent.wait_for("hold-released", &pod.name());
    another_connects(&node, &agent, "later");
    is_sound(&agent);
}
