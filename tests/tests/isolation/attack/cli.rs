//! The program `usher` enters the hostile pod, in a process of its own.

use std::fs;
use std::process::Stdio;
use std::thread;

use usher_tests::isolation::costly_rules::DEEP;
use usher_tests::isolation::{APP, Attack, SIDECAR};
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::Listen;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};
use usher_tests::synthetic::{process, usher};

pub(crate) const CONNS: Attack = Attack {
    pods: 1,
    spec,
    prepare,
    packets: "",
    depth: DEEP,
    strike: |node, _agent, pod| run(node, &["conns", &pod.name()]),
    is_reported: false,
};

pub(crate) const CAPTURE: Attack = Attack {
    strike: |node, _agent, pod| run(node, &["capture", &pod.name(), "--duration", "2s"]),
    ..CONNS
};

pub(crate) const REQUEST: Attack = Attack {
    strike: |node, _agent, pod| {
        let url = "http://127.0.0.1:15021/healthz/ready";
        run(node, &["request", &pod.name(), "GET", url]);
    },
    ..CONNS
};

fn spec(name: &str) -> PodSpec {
    PodSpec::new(name)
        .with(ContainerSpec::app(APP))
        .with(mesh::proxy(Listen::AtOnce))
}

fn prepare(_agent: &Agent, pod: &Pod) {
    pod.wait_line(SIDECAR, "listening 15021 ");
}

/// Runs it alongside the test, once it has opened a socket.
fn run(node: &Node, arguments: &[&str]) {
    let mut command = usher::command_on(node);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    eventually("a socket of usher, or its end", || {
        has_socket(pid) || process::state(pid) == Some('Z')
    });
    thread::spawn(move || drop(child.wait()));
}

fn has_socket(pid: u32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .any(|target| target.to_string_lossy().starts_with("socket:"))
}
