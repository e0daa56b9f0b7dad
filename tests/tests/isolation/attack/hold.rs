//! The agent sends packets in a hostile pod that it holds: readiness requests, and the connections that it releases.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use usher_tests::isolation::costly_rules::DEEP;
use usher_tests::isolation::{APP, Attack, SIDECAR};
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Capture, Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

/// A remote address without a listener.
const FAR: &str = "10.7.7.7:8080";
const CONNECTIONS: usize = 4_096;
/// The app's user. The costly rules exempt its packets, because the app repeats its SYNs.
const USER: u32 = 1000;
/// Much longer than the attack.
const DEADLINE: Duration = Duration::from_secs(600);
/// The release starts within this time after the sidecar listens.
const RELEASE: Duration = Duration::from_secs(1);

/// The handshake and the request of the readiness probe are costly.
pub(crate) const READINESS_PROBE: Attack = Attack {
    pods: 1,
    spec: |name| spec(name, 1),
    prepare: |agent, pod| prepare(agent, pod, 1),
    packets: "meta skuid 0",
    depth: DEEP,
    strike: listen,
    is_reported: true,
};

/// Each of the released connections is costly, and the readiness probe is not.
pub(crate) const RELEASE_OF_4096_CONNECTIONS: Attack = Attack {
    spec: |name| spec(name, CONNECTIONS),
    prepare: |agent, pod| prepare(agent, pod, CONNECTIONS),
    packets: "meta skuid 0 tcp dport != 15021",
    strike: release,
    ..READINESS_PROBE
};

fn spec(name: &str, connections: usize) -> PodSpec {
    let app = Client::to(FAR).times(connections).staying();
    PodSpec::new(name)
        .with(ContainerSpec::client(APP, app).user(USER))
        .with(mesh::proxy(Listen::OnCommand))
        .captured(Capture::default())
        .announced()
        .hold_deadline(DEADLINE)
}

/// Its connections wait.
fn prepare(agent: &Agent, pod: &Pod, connections: usize) {
    agent.wait_for("hold-armed", &pod.name());
    let path = format!("/proc/{}/net/tcp", pod.pid(APP));
    let waiting = || {
        let text = fs::read_to_string(&path).unwrap();
        let states = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(3));
        states.filter(|state| *state == "02").count()
    };
    eventually("connections to wait", || waiting() >= connections);
}

fn listen(_node: &Node, _agent: &Agent, pod: &Pod) {
    pod.send_line(SIDECAR, "listen");
    pod.wait_line(SIDECAR, "listening 15021 ");
}

/// Waits until no port is held any more, at most for `RELEASE`.
fn release(node: &Node, agent: &Agent, pod: &Pod) {
    listen(node, agent, pod);
    let limit = Instant::now() + RELEASE;
    while holds_ports(pod) && Instant::now() < limit {}
}

fn holds_ports(pod: &Pod) -> bool {
    let listed = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["nft", "list", "set", "inet", "usher", "held"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&listed.stdout).contains("elements")
}
