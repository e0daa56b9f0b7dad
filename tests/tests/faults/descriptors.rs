//! The agent has no free descriptor (`EMFILE`) for a while.

use std::process::Command;

use nix::sys::resource::{Resource, getrlimit};
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{enforcing, expect_quit, finish_and_quit, wait_observed};

/// A limit that leaves none free. With a limit of 0, poll(2) could not even check whether a process lives.
const FEW: &str = "1";

/// Sets the soft limit of a running process.
fn limit(agent: &Agent, descriptors: &str) {
    let set = Command::new("prlimit")
        .arg(format!("--pid={}", agent.pid()))
        .arg(format!("--nofile={descriptors}:"))
        .status()
        .unwrap();
    assert!(set.success());
}

#[test]
fn pods_created_without_free_descriptors_are_followed_later() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let known = node.run(&PodSpec::job("known"));
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    wait_observed(&node, &known);
    limit(&agent, FEW);
    // Open descriptors stay open: its pidfd, and the socket for the request.
    finish_and_quit(&agent, &known);
    let meanwhile = node.run(&PodSpec::job("meanwhile"));
    let ended = node.run(&PodSpec::job("ended"));
    ended.finish("app", 0);
    ended.ended("app");
    agent.log().wait("a complaint", |line| {
        // Of a pod whose containers appeared before it was watched, it cannot list the directory.
        let error = line["error"].as_str().unwrap_or_default();
        let is_about_it = line["uid"] == meanwhile.uid() || error.contains(meanwhile.uid());
        (line["level"] == "WARN" && is_about_it).then_some(())
    });
    let (_soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    limit(&agent, &hard.to_string());
    expect_quit(&agent, &ended);
    finish_and_quit(&agent, &meanwhile);
    assert!(agent.metric("usher_discovery_errors_total", "") >= 1.0);
    let late = node.run(&PodSpec::job("late"));
    finish_and_quit(&agent, &late);
}
