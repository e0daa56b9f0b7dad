//! The program `usher` enters the hostile pod, in a process of its own.

use std::process::Stdio;
use std::thread;

use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::usher;
use usher_tests::synthetic::wire::Listen;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::costly_rules::DEEP;
use crate::{APP, Attack, SIDECAR, affects_nothing_else};

const ATTACK: Attack = Attack {
    pods: 1,
    spec,
    prepare,
    packets: "",
    depth: DEEP,
    strike: |node, _agent, pod| run(node, &["conns", &pod.name()]),
    is_reported: false,
};

fn spec(name: &str) -> PodSpec {
    PodSpec::new(name)
        .with(ContainerSpec::app(APP))
        .with(mesh::proxy(Listen::AtOnce))
}

fn prepare(_agent: &Agent, pod: &Pod) {
    pod.wait_line(SIDECAR, "listening 15021 ");
}

/// Runs it alongside the test.
fn run(node: &Node, arguments: &[&str]) {
    let mut command = usher::command_on(node);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    thread::spawn(move || drop(command.status()));
}

#[test]
fn conns() {
    affects_nothing_else(&ATTACK);
}

#[test]
fn capture() {
    affects_nothing_else(&Attack {
        strike: |node, _agent, pod| {
            run(node, &["capture", &pod.name(), "--duration", "2s"]);
        },
        ..ATTACK
    });
}

#[test]
fn request() {
    affects_nothing_else(&Attack {
        strike: |node, _agent, pod| {
            let url = "http://127.0.0.1:15021/healthz/ready";
            run(node, &["request", &pod.name(), "GET", url]);
        },
        ..ATTACK
    });
}
