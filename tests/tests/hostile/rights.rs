//! The agent's privileges after its start: each thread keeps only those that it needs.
//!
//! Root starts the agent with all privileges here. In a cluster it starts with six capabilities
//! (`tests/tests/cluster/deployment.rs`), and cannot gain more.

use std::collections::BTreeMap;
use std::fs;

use usher_tests::privilege;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::runtime::StateDir;
use usher_tests::synthetic::wire::{Capture, Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, PodSpec};

const KILL: u64 = 1 << 5;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const SYS_PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;
const SYS_NICE: u64 = 1 << 23;
const DECIDING: u64 = KILL | NET_ADMIN | NET_RAW | SYS_PTRACE | SYS_ADMIN;

/// The hexadecimal fields of a thread's status, and `NoNewPrivs`.
fn status(path: &str) -> BTreeMap<String, u64> {
    fields(&fs::read_to_string(path).unwrap())
}

fn fields(status: &str) -> BTreeMap<String, u64> {
    let fields = status.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let number = u64::from_str_radix(value.trim(), 16).ok()?;
        Some((name.to_owned(), number))
    });
    fields.collect()
}

/// The names of its threads, in order, with their fields; the first thread, which has the name of the binary, is `main`. A
/// thread that ends meanwhile is left out.
fn threads(pid: u32) -> Vec<(String, BTreeMap<String, u64>)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let paths = tasks
        .flatten()
        .map(|task| task.path().display().to_string());
    let named = paths.filter_map(|path| {
        let comm = fs::read_to_string(format!("{path}/comm")).ok()?;
        let status = fs::read_to_string(format!("{path}/status")).ok()?;
        let is_first = path.ends_with(&format!("/{pid}"));
        let name = if is_first { "main" } else { comm.trim() };
        Some((name.to_owned(), fields(&status)))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

/// The only thread of this name, if there is one.
fn find<'a>(
    threads: &'a [(String, BTreeMap<String, u64>)],
    name: &str,
) -> Option<&'a BTreeMap<String, u64>> {
    let mut found = threads.iter().filter(|(thread, _)| thread == name);
    let (_, first) = found.next()?;
    assert_eq!(found.next(), None, "a second thread {name}");
    Some(first)
}

fn has(status: &BTreeMap<String, u64>, permitted: u64, bounding: u64) {
    let expected = [
        ("CapInh", 0),
        ("CapPrm", permitted),
        ("CapEff", permitted),
        ("CapBnd", bounding),
        ("CapAmb", 0),
        ("NoNewPrivs", 1),
    ];
    for (field, value) in expected {
        assert_eq!(status[field], value, "{field} of {status:x?}");
    }
}

#[test]
fn of_each_thread() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    node.annotate(&[("usher.dev/mode", "enforce")]);
    // The thread `host-file` is for kubelets with TLS only. Nothing listens here.
    node.kubelet().proxied_at("https://127.0.0.1:1".to_owned());
    let agent = Agent::start(&node);
    // The agent drops its last capability, for its priority, when it starts to decide.
    let main = format!("/proc/{}/status", agent.pid());
    eventually("the agent to decide", || {
        status(&main)["CapPrm"] & SYS_NICE == 0
    });
    // The threads that probe the kernel at the start have ended. A thread has its name before it drops its capabilities.
    eventually("the threads that stay", || {
        let threads = threads(agent.pid());
        let permitted: Vec<(&str, u64)> = threads
            .iter()
            .map(|(name, status)| (name.as_str(), status["CapPrm"]))
            .collect();
        permitted
            == [
                ("host-file", SYS_PTRACE),
                ("log", 0),
                ("main", DECIDING),
                ("probes", 0),
                ("services", 0),
            ]
    });
    let threads = threads(agent.pid());
    let bounding = DECIDING | SYS_NICE;
    assert_eq!(threads.len(), 5, "{threads:?}");
    for (name, status) in &threads {
        let permitted = match name.as_str() {
            "main" => DECIDING,
            "host-file" => SYS_PTRACE,
            _ => 0,
        };
        has(status, permitted, bounding);
    }
}

/// It reads the command lines of processes whose pids may have been taken over by those of a pod.
#[test]
fn of_the_thread_that_observes_commands() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    node.annotate(&[("usher.dev/linger", "observe")]);
    let state = StateDir::below(&node.run_dir());
    let pod = node.run(&PodSpec::new("observed").with(ContainerSpec::app("app")));
    state.add(&pod, "app");
    let agent = Agent::start_with(&node, &[state.flag()]);
    eventually("the thread without privileges", || {
        let threads = threads(agent.pid());
        find(&threads, "stop-commands").is_some_and(|thread| thread["CapPrm"] == 0)
    });
    let threads = threads(agent.pid());
    let thread = find(&threads, "stop-commands").unwrap();
    has(thread, 0, DECIDING | SYS_NICE);
}

/// It has those of the event loop, whose system calls in pods it makes; its thread that logs has none.
#[test]
fn of_the_worker() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let agent = Agent::start(&node);
    let worker = agent.worker();
    // A thread has its name before it drops its capabilities.
    eventually("the worker's threads", || {
        let threads = threads(worker);
        let log = find(&threads, "log");
        threads.iter().any(|(name, _)| name == "pod") && log.is_some_and(|log| log["CapPrm"] == 0)
    });
    for (name, status) in threads(worker) {
        let permitted = if name == "log" { 0 } else { DECIDING };
        has(&status, permitted, DECIDING | SYS_NICE);
    }
}

/// The agent executes it with its own privileges at most.
#[test]
fn of_the_holder() {
    if !privilege::granted_with(&["nft", "nsenter"]) {
        return;
    }
    let node = Node::with_bundles();
    node.annotate(&[("usher.dev/hold", "enforce")]);
    let agent = Agent::start(&node);
    let spec = PodSpec::new("first")
        .with(ContainerSpec::client(
            "app",
            Client::to("10.7.7.7:8080").staying(),
        ))
        .with(mesh::proxy(Listen::OnCommand))
        .captured(Capture::default())
        .announced()
        .annotation("usher.dev/hold", "start");
    let _pod = node.create(&spec);
    let holder = agent.wait_holder(None);
    // The holder drops each privilege after its last use.
    let main = format!("/proc/{}/status", holder.pid());
    eventually("the holder's rights", || {
        status(&main)["CapPrm"] == SYS_ADMIN
    });
    let threads = threads(holder.pid());
    assert_eq!(threads.len(), 1, "{threads:?}");
    for (_, status) in &threads {
        has(status, SYS_ADMIN, SYS_ADMIN | DECIDING | SYS_NICE);
    }
}
