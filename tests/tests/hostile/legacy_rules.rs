//! A pod that adds costly rules of iptables-legacy while it is held.

use std::fmt::Write;
use std::io::Write as _;
use std::process::Stdio;

use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Answer, Effect, Listen, Listener, Place, Route, Sidecar};
use usher_tests::synthetic::{Agent, ContainerSpec, Pod, usher};

use crate::rules::{another_connects, captured, client, holding, nsenter, waiting};
use crate::{SIDECAR, is_sound};

/// The user of an app whose packets are distinguished from usher's.
const USER: u32 = 1000;

const RESTORE: &str = "iptables-legacy-restore";

/// They have no generation, and the agent has read the pod's rules before.
#[test]
fn nothing_is_released_into_them() {
    const EARLY: &str = "early";
    if !privilege::granted_with(&[RESTORE]) {
        return;
    }
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    // The agent reads the rules before its first readiness request, to which another container responds.
    let unready = Route::any(Answer::Status(503), Effect::Stay);
    let early = Sidecar {
        listeners: vec![Listener::new(mesh::READY_PORT, vec![unready]).on(Place::Everywhere)],
        ..Sidecar::default()
    };
    let early = ContainerSpec::sidecar(EARLY, "registry.example/team/early:1", early);
    let pod = node.run(&captured(
        "legacy",
        [client("app", 1).user(USER), early],
        Listen::OnCommand,
    ));
    agent.wait_for("hold-armed", &pod.name());
    eventually("the connection to wait", || waiting(&pod, "app") == 1);
    pod.request(EARLY);
    load(&pod);
    pod.signal(EARLY, Signal::SIGKILL);
    pod.ended(EARLY);
    pod.send_line(SIDECAR, "listen");
    agent.wait_for("quarantined", &pod.name());
    let save = nsenter(&pod, "iptables-legacy-save")
        .args(["-c", "-t", "mangle"])
        .output()
        .unwrap();
    let rules = String::from_utf8(save.stdout).unwrap();
    assert!(rules.contains("[0:0] -A OUTPUT -p tcp"), "{rules}");
    another_connects(&node, &agent, "another");
    is_sound(&agent);
}

/// Nothing can interrupt a packet that passes them.
#[test]
fn commands_send_nothing_into_them() {
    if !privilege::granted_with(&[RESTORE]) {
        return;
    }
    let Some(node) = holding() else { return };
    let pod = node.run(&captured("legacy", [client("app", 0)], Listen::AtOnce));
    pod.wait_line(SIDECAR, "listening 15021 ");
    let request = || {
        usher::on(
            &node,
            &["request", &pod.name(), "GET", ":15021/healthz/ready"],
        )
    };
    assert_eq!(request().code, Some(0));
    load(&pod);
    let ran = request();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let why = "the packet filter in the pod's network namespace may evaluate more than";
    assert!(ran.stderr.contains(why), "{ran:?}");
}

fn load(pod: &Pod) {
    let mut restore = nsenter(pod, RESTORE).stdin(Stdio::piped()).spawn().unwrap();
    let mut rules = restore.stdin.take().unwrap();
    rules.write_all(costly_legacy_rules().as_bytes()).unwrap();
    drop(rules);
    assert!(restore.wait().unwrap().success());
}

/// A packet could evaluate 4^9 rules, but no packet reaches them. The first rule counts the connections that usher releases.
fn costly_legacy_rules() -> String {
    const DEPTH: u32 = 9;
    let mut rules = String::from("*mangle\n");
    for level in 0..=DEPTH {
        writeln!(rules, ":c{level} - [0:0]").unwrap();
    }
    rules += "-A OUTPUT -p tcp --dport 8080 -m owner --uid-owner 0 -j ACCEPT\n";
    rules += "-A OUTPUT -j ACCEPT\n-A OUTPUT -j c0\n";
    for level in 0..DEPTH {
        rules += &format!("-A c{level} -j c{}\n", level + 1).repeat(4);
    }
    writeln!(rules, "-A c{DEPTH} -m mark --mark 1\nCOMMIT").unwrap();
    rules
}
