//! Where a capture is possible, and the errors where it is not.

use std::process::Command;

use usher_tests::{
    privilege,
    synthetic::{ContainerSpec, Node, PodSpec, machine, usher},
};

use super::{file, pod};
use crate::run;

#[test]
fn impossible_captures_are_rejected() {
    let Some((node, pod)) = pod("refused") else {
        return;
    };
    let there = file(&node, "there");
    std::fs::write(&there, "mine").unwrap();
    let there = there.to_str().unwrap();
    let name = pod.name();
    for (arguments, code, words) in [
        (vec!["absent"], 4, "no pod on this node"),
        (
            vec![&name, "-i", "eth7"],
            2,
            "no interface \"eth7\"; interfaces: lo, ",
        ),
        (vec![&name, "-w", there], 1, "--force"),
        (
            vec![&name, "-w", "/proc/nothing/x"],
            1,
            "cannot write /proc/nothing/x",
        ),
        (
            vec![&name, "--protocol", "icmp", "--port", "7"],
            2,
            "ICMP has no ports",
        ),
        (
            vec![&name, "--host", "shop"],
            2,
            "invalid IP address or network",
        ),
        (vec![&name, "--buffer", "1K"], 2, "--buffer must be from"),
        (vec![&name, "-o", "json"], 2, "pcapng with -w"),
        (vec![&name, "--duration", "nothing"], 2, "not a duration"),
    ] {
        let arguments = [vec!["capture"], arguments].concat();
        let ran = run(&node, &arguments);
        assert_eq!(
            (ran.code, &ran.stdout[..]),
            (Some(code), ""),
            "{arguments:?}: {ran:?}"
        );
        assert!(ran.stderr.contains(words), "{arguments:?}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(there).unwrap(), "mine");
    let ran = run(
        &node,
        &[
            "capture",
            &name,
            "-w",
            there,
            "--force",
            "--duration",
            "10ms",
        ],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("ended: --duration elapsed"), "{ran:?}");
    assert!(std::fs::read(there).unwrap().starts_with(&[0x0a, 0x0d]));
}

#[test]
fn works_without_the_kubelet_and_names_missing_capabilities() {
    let Some((node, pod)) = pod("alone") else {
        return;
    };
    let pid = pod.wait_container("app").to_string();
    let mut command = usher::command_on(&node);
    command.args(["capture", &pid, "--duration", "10ms"]);
    let ran = command
        .env("USHER_KUBELET", "http://127.0.0.1:9")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let mut command = Command::new("setpriv");
    let usher = usher::command_on(&node);
    command.env_clear().envs(
        usher
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
        .args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"])
        .arg(usher.get_program());
    let ran = command.args(["capture", &pod.name()]).output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("missing here: CAP_NET_RAW"), "{stderr}");
}

#[test]
fn pod_in_a_user_namespace() {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    let mut spec = PodSpec::new("users").with(ContainerSpec::app("app"));
    spec.shares.own_users = true;
    let pod = node.run(&spec);
    let ran = run(&node, &["capture", &pod.name(), "--duration", "10ms"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn host_network_pod_is_rejected() {
    if !(privilege::granted() && machine::entered("capture::place::host_network_pod_is_rejected")) {
        return;
    }
    let node = Node::new();
    let mut spec = PodSpec::new("host").with(ContainerSpec::app("app"));
    spec.shares.host_network = true;
    let pod = node.run(&spec);
    let capture = ["capture", &pod.name(), "--duration", "10ms"];
    let request = ["request", &pod.name(), "GET", ":9/"];
    for (arguments, code) in [(capture, 0), (request, 5)] {
        let ran = run(&node, &arguments);
        assert_eq!((ran.code, &ran.stdout[..]), (Some(3), ""), "{ran:?}");
        assert!(
            ran.stderr.contains("uses the node's network namespace"),
            "{ran:?}"
        );
        let meant = [&arguments[..], &["--host-network"]].concat();
        let ran = run(&node, &meant);
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
}
