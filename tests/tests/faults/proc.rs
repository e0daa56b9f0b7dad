//! `/proc` is unreadable, or contains garbage.
//!
//! The agent runs in a mount namespace in which other files cover some entries of one pod's
//! processes.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, PodSpec};

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

/// A read that never returns blocks the thread that decides. `/healthz` reports it, so that the kubelet restarts the agent;
/// when the read returns, the agent continues.
#[test]
fn hanging_entry() {
    let Some(node) = enforcing() else { return };
    let bad = node.run(&PodSpec::job("bad"));
    let good = node.run(&PodSpec::job("good"));
    let pipe = node.run_dir().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mask = PathBuf::from(format!("/proc/{}/mountinfo", bad.pid("app")));
    let agent = Agent::start_masked(&node, &[(pipe.clone(), mask)]);
    // The request may come before the agent has reached that entry.
    eventually("the loop to hang", || agent.get("/healthz").0 == 503);
    good.finish("app", 0);
    good.ended("app");
    assert!(good.requests(SIDECAR).is_empty());
    // A writer makes the reader's `open` return. Then the reader gets the end of the file.
    let answer = || {
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).custom_flags(nix::libc::O_NONBLOCK);
        drop(options.open(&pipe));
    };
    eventually("the quit of the good one", || {
        answer();
        good.end_so_far(SIDECAR).is_some()
    });
    eventually("/healthz", || {
        answer();
        agent.get("/healthz").0 == 200
    });
}
