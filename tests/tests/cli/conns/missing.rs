//! Missing prerequisites: capabilities, the kubelet, valid arguments.

use std::process::Command;

use usher_tests::privilege;
use usher_tests::synthetic::spec::ISTIO_PROXY;
use usher_tests::synthetic::wire::Holding;
use usher_tests::synthetic::{Behaviour, Node, usher};

use super::{FAR, meshed};
use crate::{enforcing, run};

/// Runs it with only these capabilities.
fn with_capabilities(node: &Node, arguments: &[&str], capabilities: &str) -> (String, String) {
    let usher = usher::command_on(node);
    let mut command = Command::new("setpriv");
    command
        .args(["--inh-caps", capabilities, "--bounding-set", capabilities])
        .arg(usher.get_program())
        .args(arguments)
        .env_clear();
    for (name, value) in usher.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn agent_container_capabilities_suffice() {
    if !privilege::granted_with(&["nft", "setpriv"]) {
        return;
    }
    let Some(node) = enforcing() else { return };
    let pod = meshed(&node, "capabilities", Holding::default().connected(FAR, 1));
    let arguments = ["conns", &pod.name(), "--no-headers"];
    let ours = "-all,+sys_admin,+sys_ptrace,+net_admin,+net_raw,+kill";
    let (stdout, stderr) = with_capabilities(&node, &arguments, ours);
    // The proxy is another user: root may not list its descriptors, but may read what they are.
    let envoy = format!("{}/envoy", pod.pid(ISTIO_PROXY));
    assert!(stdout.contains(&envoy), "{stdout}{stderr}");
    assert!(!stderr.contains("file descriptors of"), "{stderr}");
    let (stdout, stderr) = with_capabilities(&node, &arguments, "-all,+sys_admin");
    assert!(
        stdout.is_empty() && stderr.contains("namespace"),
        "{stdout}{stderr}"
    );
}

#[test]
fn without_the_kubelet_paths_are_unknown() {
    let Some(node) = enforcing() else { return };
    let pod = meshed(&node, "alone", Holding::default().connected(FAR, 1));
    node.kubelet().behave(Behaviour::Status(401));
    let ran = run(&node, &["conns", pod.uid(), "-o", "wide"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("kubelet"), "{ran:?}");
    let line = ran.stdout.lines().find(|line| line.contains(FAR)).unwrap();
    assert!(
        line.contains("the roles of the containers are not known"),
        "{line}"
    );
    // The names of the containers are known from their mounts.
    assert!(line.contains("app"), "{line}");
}

#[test]
fn invalid_arguments_are_rejected() {
    let Some(node) = enforcing() else { return };
    let pod = meshed(&node, "words", Holding::default().ignoring("127.0.0.1:80"));
    let name = pod.name();
    for (arguments, code) in [
        (vec!["conns", "no-such-pod"], 4),
        (vec!["conns"], 2),
        (vec!["conns", &name, "--state", "sleeping"], 2),
        (vec!["conns", &name, "--port", "65536"], 2),
        (vec!["conns", &name, "--container", "none"], 2),
        (
            vec!["conns", &name, "--container", "app", "--state", "listening"],
            0,
        ),
        (vec!["conns", &name, "--state", "TIME-WAIT"], 0),
    ] {
        let ran = run(&node, &arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
    }
    let ran = run(&node, &["conns", &name, "-c", "none"]);
    assert!(ran.stderr.contains("app, istio-proxy"), "{ran:?}");
}
