//! The agent is killed, stopped or wedged while fifty pods are held. The kernel releases
//! the ports at the deadline, and pods still start.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};
use usher_tests::wait::{fewer, slower};

use crate::{
    FAR, SIDECAR, armed, connected, eventually, has_table, holding, opened, pod, ready,
    ready_on_command,
};

const PODS: usize = 50;
/// The number of pods that start at the same time.
const STARTS: usize = 10;
/// A deadline that does not expire during a test.
const LONG: Duration = Duration::from_secs(60);
/// A deadline of which an agent that exits leaves at least half.
const BRIEF: Duration = Duration::from_secs(20);
/// Linux sends a connection's last SYN after 63 s, 67 since 6.5: a port released later lets no SYN through unless an
/// agent resends it.
const WHILE_SYNS_COME: Duration = Duration::from_secs(45);
/// Far more than the plugin's timeout.
const BOUND: Duration = Duration::from_secs(5);

/// The deadline if no agent ends the hold.
fn brief() -> Duration {
    slower(BRIEF).min(WHILE_SYNS_COME)
}

/// Apps that stay, so that their network namespaces can be examined.
fn staying(name: &str, deadline: Duration) -> PodSpec {
    let app = ContainerSpec::client("app", Client::to(FAR).staying());
    pod(name, app.later(), mesh::proxy(Listen::OnCommand)).hold_deadline(deadline)
}

fn hold(node: &Node, agent: &Agent, deadline: Duration) -> Vec<Pod> {
    let specs: Vec<PodSpec> = (0..fewer(PODS))
        .map(|n| staying(&format!("held-{n}"), deadline))
        .collect();
    let pods: Vec<Pod> = specs
        .chunks(STARTS)
        .flat_map(|specs| node.run_all(specs))
        .collect();
    for pod in &pods {
        armed(agent, pod);
    }
    // No deadline has started until now.
    for pod in &pods {
        pod.start("app");
    }
    for pod in &pods {
        pod.first_instruction("app");
    }
    pods
}

/// A pod that starts now is not held, and its app's first connection is refused.
fn starts_unheld(node: &Node, name: &str) {
    let pod = node.run(&ready_on_command(name).impatient());
    let added = pod.added(1);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.took < slower(BOUND), "{added:?}");
    crate::refused(&pod.client_result("app"));
}

/// No agent helps them, and all of them succeed: the sidecars are ready before
/// the deadline, when the kernel releases the ports. Others start meanwhile.
fn succeed_by_the_deadline(node: &Node, pods: &[Pod]) {
    for pod in pods {
        ready(pod);
    }
    starts_unheld(node, "during");
    for pod in pods {
        pod.wait_line(SIDECAR, "listening 15021 ");
        connected(&pod.client_result_so_far("app", 1), 1);
    }
}

fn nothing_is_left(pods: &[Pod]) {
    for pod in pods {
        eventually("the table to be deleted", || !has_table(pod));
    }
}

#[test]
fn killed() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, brief());
    agent.kill();
    succeed_by_the_deadline(&node, &pods);
    let agent = Agent::start(&node);
    nothing_is_left(&pods);
    connected(&node.run(&crate::late("after")).client_result("app"), 1);
    drop(agent);
}

#[test]
fn stopped() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, brief());
    agent.signal(Signal::SIGSTOP);
    succeed_by_the_deadline(&node, &pods);
    agent.signal(Signal::SIGCONT);
    nothing_is_left(&pods);
    connected(&node.run(&crate::late("after")).client_result("app"), 1);
}

/// The plugin gives up, and its app runs before the agent reads the request.
#[test]
fn stopped_while_a_pod_starts() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    agent.signal(Signal::SIGSTOP);
    let app = ContainerSpec::client("app", Client::to(FAR).shrugging().staying());
    let spec = pod("late", app, mesh::proxy(Listen::OnCommand)).impatient();
    let late = node.run(&spec);
    crate::refused(&late.client_result_so_far("app", 1));
    agent.signal(Signal::SIGCONT);
    agent.wait_metric("usher_decisions_total", "not-held", |count| count > 0.5);
    let decisions = agent.decisions(&late.name());
    assert!(
        !decisions.contains(&"hold-armed".to_owned()),
        "{decisions:?}"
    );
    assert!(!has_table(&late));
    next_pod_is_held(&node, &agent, "after");
}

#[test]
fn wedged() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, brief());
    agent.wedged(|| {
        succeed_by_the_deadline(&node, &pods);
    });
    nothing_is_left(&pods);
    connected(&node.run(&crate::late("after")).client_result("app"), 1);
}

/// The next agent adopts the holds, with their deadlines.
#[test]
fn restarted_while_connections_wait() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, slower(LONG));
    agent.kill();
    let agent = Agent::start(&node);
    for pod in &pods {
        agent.log().wait("hold-adopted", |line| {
            (line["decision"] == "hold-adopted" && line["uid"] == pod.uid()).then_some(())
        });
    }
    for pod in &pods {
        ready(pod);
    }
    for pod in &pods {
        connected(&pod.client_result_so_far("app", 1), 1);
        let why = opened(&agent, pod);
        assert!(why.contains("is ready"), "{why}");
    }
    nothing_is_left(&pods);
}

fn listening(agent: &Agent, wanted: bool) {
    let wanted = f64::from(u8::from(wanted));
    agent.wait_metric("usher_cni_listening", "", |listening| listening == wanted);
}

/// The next pod is announced, and held.
fn next_pod_is_held(node: &Node, agent: &Agent, name: &str) {
    let held = || agent.metric("usher_cni_announcements_total", "result=\"held\"");
    let before = held();
    let pod = node.run(&crate::late(name));
    connected(&pod.client_result("app"), 1);
    assert_eq!(held(), before + 1.0, "{:?}", pod.added(1));
}

/// Another process removes the socket.
#[test]
fn without_its_socket() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    listening(&agent, true);
    for name in ["cni.sock", "admin.sock"] {
        let socket = node.run_dir().join(name);
        fs::remove_file(&socket).unwrap();
        eventually(name, || socket.exists());
    }
    listening(&agent, true);
    next_pod_is_held(&node, &agent, "removed");
    // Another, without a listener.
    let socket = node.run_dir().join("cni.sock");
    let other = node.run_dir().join("other");
    drop(UnixListener::bind(&other).unwrap());
    let inode = fs::metadata(&other).unwrap().ino();
    // While this file is open, no other file gets its inode.
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).custom_flags(nix::libc::O_PATH);
    let _open = options.open(&other).unwrap();
    fs::rename(&other, &socket).unwrap();
    eventually("the socket", || {
        fs::metadata(&socket).is_ok_and(|found| found.ino() != inode)
    });
    listening(&agent, true);
    next_pod_is_held(&node, &agent, "replaced");
}

#[test]
fn without_a_socket_directory() {
    let Some(node) = holding() else { return };
    let socket = node.run_dir().join("cni.sock");
    fs::create_dir(&socket).unwrap();
    let agent = Agent::start(&node);
    agent.log().wait("a complaint", |line| {
        let message = line["message"].as_str()?;
        message.contains("pods start unheld").then_some(())
    });
    listening(&agent, false);
    fs::remove_dir(&socket).unwrap();
    listening(&agent, true);
    next_pod_is_held(&node, &agent, "after");
}

/// A second agent that is started by mistake exits, and does not affect the first one.
#[test]
fn alongside_a_second_agent() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    listening(&agent, true);
    let sockets = ["cni.sock", "admin.sock"].map(|name| node.run_dir().join(name));
    let inodes = || {
        sockets
            .each_ref()
            .map(|path| fs::metadata(path).unwrap().ino())
    };
    let before = inodes();
    let lines = agent.rival(&node);
    assert!(
        lines
            .iter()
            .any(|line| line.to_string().contains("listening on")),
        "{lines:?}"
    );
    assert_eq!(inodes(), before);
    next_pod_is_held(&node, &agent, "after");
}
