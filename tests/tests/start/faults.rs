//! The agent or the holder is killed, stopped or wedged while starts are
//! held: every app starts.
//!
//! | fault | start of the apps |
//! | --- | --- |
//! | holder killed | at once |
//! | holder stopped or wedged | when its timer has killed it, after 2 s |
//! | agent killed | at once: the holder sees its socket close |
//! | agent killed during a read that does not end | at once: the kernel signals the end of the agent's main thread |
//! | agent stopped or wedged | at the hold's own limit, which the holder applies |
//! | both | at the earlier of both |

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::silent_file::SilentFile;
use usher_tests::synthetic::{Agent, Holder, Node, Pod, PodSpec};
use usher_tests::wait::{fewer, slower};

use crate::{APP, held, holding, meanwhile, ready_on_command};

const PODS: usize = 20;
/// The number of pods that start at the same time.
const STARTS: usize = 5;
/// The longest limit that a pod can have, which does not expire during a test.
const LONG: Duration = Duration::from_secs(600);
/// A limit that ends the hold if no agent does.
const LIMIT: Duration = Duration::from_secs(20);

fn hold(node: &Node, agent: &Agent, deadline: Duration) -> Vec<Pod> {
    let mut pods = Vec::new();
    while pods.len() < fewer(PODS) {
        let first = pods.len();
        for n in first..first + STARTS {
            let spec = ready_on_command(&format!("held-{n}"));
            pods.push(node.create(&spec.hold_deadline(slower(deadline).min(LONG))));
        }
        for pod in pods.iter().skip(first) {
            held(agent, pod);
        }
    }
    pods
}

/// The sidecars do not become ready, and all apps run.
fn start(pods: &[Pod]) {
    for pod in pods {
        pod.first_instruction(APP);
    }
}

/// The end of the holder released them, not their limit.
fn released_by_the_end(agent: &Agent, pods: &[Pod]) {
    for pod in pods {
        let why = crate::release_reason(agent, pod);
        assert!(why.starts_with("the process that held it ended"), "{why}");
    }
}

/// The holder is gone; a new holder holds starts.
fn holds_again(node: &Node, agent: &Agent, old: Holder) {
    agent.wait_holder(Some(old));
    agent.wait_metric("usher_holder_up", "", |up| up > 0.5);
    agent.wait_metric("usher_holder_exits_total", "", |count| count > 0.5);
    meanwhile(node, agent, "after");
}

#[test]
fn holder_killed() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LONG);
    let holder = agent.wait_holder(None);
    holder.signal(Signal::SIGKILL);
    start(&pods);
    released_by_the_end(&agent, &pods);
    holds_again(&node, &agent, holder);
}

#[test]
fn holder_stopped() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LONG);
    let holder = agent.wait_holder(None);
    holder.signal(Signal::SIGSTOP);
    start(&pods);
    released_by_the_end(&agent, &pods);
    holds_again(&node, &agent, holder);
}

#[test]
fn holder_wedged() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LONG);
    let holder = agent.wait_holder(None);
    holder.wedged(|| start(&pods));
    released_by_the_end(&agent, &pods);
    holds_again(&node, &agent, holder);
}

/// Stopped before it holds anything: other containers still start.
#[test]
fn holder_stopped_before_a_pod_starts() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    meanwhile(&node, &agent, "before");
    let holder = agent.wait_holder(None);
    holder.signal(Signal::SIGSTOP);
    let pods: Vec<Pod> = (0..fewer(PODS))
        .map(|n| node.create(&ready_on_command(&format!("meanwhile-{n}"))))
        .collect();
    // Its own timer ends it, or an agent that misses its reply, whichever is first.
    eventually("the end of the holder", || !holder.lives());
    for pod in &pods {
        crate::ready(pod);
    }
    start(&pods);
    holds_again(&node, &agent, holder);
}

#[test]
fn agent_killed() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LONG);
    let holder = agent.wait_holder(None);
    agent.signal(Signal::SIGKILL);
    // The holder exits with its agent, long before any limit.
    eventually("the end of the holder", || !holder.lives());
    start(&pods);
    agent.kill();
    let agent = Agent::start(&node);
    meanwhile(&node, &agent, "after");
}

/// A thread that waits in the kernel keeps the agent's sockets open.
#[test]
fn agent_killed_during_a_read() {
    if !privilege::granted_with_device("/dev/fuse") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The mount namespace of the node has the mounts of this moment.
    let file = SilentFile::new(&directory.path().join("silent"));
    let Some(node) = holding() else { return };
    let read = node.run(&PodSpec::job("read"));
    let entry = PathBuf::from(format!("/proc/{}/mountinfo", read.pid(APP)));
    let agent = Agent::start_masked(&node, &[(file.path().to_owned(), entry)]);
    // Dropped before the agent, which ends only then.
    let mut file = file;
    file.wait_for_open();
    let pods = hold(&node, &agent, LONG);
    let holder = agent.wait_holder(None);
    agent.signal(Signal::SIGKILL);
    eventually("the end of the holder", || !holder.lives());
    start(&pods);
    // By its replies, not by the end of the process.
    let released = |line: &Value| line["starts"] == pods.len();
    eventually("its report", || agent.log().count(released) == 1);
    drop(file);
    agent.kill();
}

#[test]
fn agent_terminated() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LONG);
    assert_eq!(agent.stop(), Some(0));
    start(&pods);
}

#[test]
fn agent_stopped() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LIMIT);
    agent.signal(Signal::SIGSTOP);
    start(&pods);
    agent.signal(Signal::SIGCONT);
    meanwhile(&node, &agent, "after");
}

#[test]
fn agent_wedged() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LIMIT);
    agent.wedged(|| start(&pods));
    meanwhile(&node, &agent, "after");
}

#[test]
fn both_killed() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LONG);
    let holder = agent.wait_holder(None);
    holder.signal(Signal::SIGKILL);
    agent.kill();
    start(&pods);
    let agent = Agent::start(&node);
    meanwhile(&node, &agent, "after");
}

#[test]
fn both_stopped() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = hold(&node, &agent, LONG);
    let holder = agent.wait_holder(None);
    agent.signal(Signal::SIGSTOP);
    holder.signal(Signal::SIGSTOP);
    start(&pods);
    agent.signal(Signal::SIGCONT);
    released_by_the_end(&agent, &pods);
    holds_again(&node, &agent, holder);
}
