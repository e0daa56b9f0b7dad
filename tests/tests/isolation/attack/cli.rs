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
    strike: |node, _agent, pod| run(node, pod, &["conns", &pod.name()]),
    is_reported: false,
};

pub(crate) const CAPTURE: Attack = Attack {
    strike: |node, _agent, pod| run(node, pod, &["capture", &pod.name(), "--duration", "2s"]),
    ..CONNS
};

/// It sends no packet through such rules.
pub(crate) const REQUEST: Attack = Attack {
    strike: |node, _agent, pod| {
        let url = "http://127.0.0.1:15021/healthz/ready";
        let ran = usher::on(node, &["request", &pod.name(), "GET", url]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let why = "the packet filter in the pod's network namespace may evaluate more than";
        assert!(ran.stderr.contains(why), "{ran:?}");
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

/// Runs it alongside the test, once it has opened the pod's network namespace and a socket.
fn run(node: &Node, pod: &Pod, arguments: &[&str]) {
    let network = pod.network().unwrap();
    let mut command = usher::command_on(node);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    eventually("usher in the pod, or its end", || {
        is_in(pid, &network) || process::state(pid) == Some('Z')
    });
    if let Some(status) = child.try_wait().unwrap() {
        let output = child.wait_with_output().unwrap();
        assert!(status.success(), "{arguments:?}: {output:?}");
        return;
    }
    thread::spawn(move || drop(child.wait_with_output()));
}

fn is_in(pid: u32, network: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let targets: Vec<String> = descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    targets.iter().any(|target| target == network)
        && targets.iter().any(|target| target.starts_with("socket:"))
}
