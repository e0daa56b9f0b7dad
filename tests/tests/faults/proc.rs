//! `/proc` is unreadable, or contains garbage.
//!
//! The agent runs in a mount namespace in which other files cover some entries of one pod's
//! processes.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec};

use crate::{SIDECAR, enforcing, finish_and_quit};

/// Too many log lines about one pod.
const MANY: usize = 20;

/// One pod's entries are covered. The other pods are quit as usual, and the
/// agent neither exits nor logs without end.
fn survives(entries: &[&str], cover: impl Fn(&Path)) {
    let Some(node) = enforcing() else { return };
    let bad = node.run(&PodSpec::job("bad"));
    let good = node.run(&PodSpec::job("good"));
    let source = node.run_dir().join("cover");
    cover(&source);
    let mut masks = Vec::new();
    for container in ["app", SIDECAR] {
        let process = PathBuf::from(format!("/proc/{}", bad.pid(container)));
        masks.extend(
            entries
                .iter()
                .map(|entry| (source.clone(), process.join(entry))),
        );
    }
    let agent = Agent::start_masked(&node, &masks);
    let complaints = || {
        let log = agent.log();
        log.count(|line| line["level"] == "WARN" || line["level"] == "ERROR")
    };
    finish_and_quit(&agent, &good);
    let late = node.run(&PodSpec::job("late"));
    finish_and_quit(&agent, &late);
    bad.finish("app", 0);
    bad.ended("app");
    drop((bad, good, late));
    agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
    assert!(complaints() < MANY, "{:#?}", agent.log().lines());
}

const FILES: [&str; 4] = ["status", "stat", "mountinfo", "cgroup"];

#[test]
fn empty_entries() {
    survives(&[""], |cover| std::fs::create_dir(cover).unwrap());
}

#[test]
fn no_namespaces() {
    survives(&["ns"], |cover| std::fs::create_dir(cover).unwrap());
}

#[test]
fn regular_file_instead_of_the_network_namespace() {
    survives(&["ns"], |cover| {
        std::fs::create_dir(cover).unwrap();
        std::fs::write(cover.join("net"), "not a namespace").unwrap();
    });
}

#[test]
fn garbage() {
    survives(&FILES, |cover| {
        std::fs::write(cover, b"\xff\xfe 1 (x) ) NSpid: - -\n\0\n:::\n").unwrap();
    });
}

#[test]
fn garbage_in_mountinfo_only() {
    survives(&["mountinfo"], |cover| {
        std::fs::write(cover, "1 2 3\n").unwrap();
    });
}

#[test]
fn empty_files() {
    survives(&FILES, |cover| std::fs::write(cover, "").unwrap());
}

/// Starts an agent that waits at an entry of this pod's app until something opens the pipe.
fn start_hanging(node: &Node, bad: &Pod) -> (Agent, PathBuf) {
    let pipe = node.run_dir().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mask = PathBuf::from(format!("/proc/{}/mountinfo", bad.pid("app")));
    let agent = Agent::start_masked(node, &[(pipe.clone(), mask)]);
    let reads = r#"operation="proc""#;
    agent.wait_metric("usher_discovery_errors_total", reads, |errors| errors > 0.5);
    (agent, pipe)
}

/// A read that does not return delays only its own pod, and is reported.
#[test]
fn hanging_entry() {
    let Some(node) = enforcing() else { return };
    let bad = node.run(&PodSpec::job("bad"));
    let good = node.run(&PodSpec::job("good"));
    let (agent, pipe) = start_hanging(&node, &bad);
    finish_and_quit(&agent, &good);
    assert_eq!(agent.get("/healthz").0, 200);
    let late = node.run(&PodSpec::job("late"));
    finish_and_quit(&agent, &late);
    bad.finish("app", 0);
    // A writer makes the reader's `open` return. Then the reader gets the end of the file.
    eventually("the quit of the bad one", || {
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).custom_flags(nix::libc::O_NONBLOCK);
        drop(options.open(&pipe));
        bad.end_so_far(SIDECAR).is_some()
    });
}

#[test]
fn end_during_a_hanging_read() {
    let Some(node) = enforcing() else { return };
    let bad = node.run(&PodSpec::job("bad"));
    let (agent, _pipe) = start_hanging(&node, &bad);
    assert_eq!(agent.stop(), Some(0));
}
