//! More changes in the cgroup tree than the kernel queues for the agent (`IN_Q_OVERFLOW`).

use nix::sys::signal::Signal;
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{enforcing, expect_quit, finish_and_quit};

/// The limit of queued events for each watcher.
const LIMIT: &str = "/proc/sys/fs/inotify/max_queued_events";

#[test]
fn changes_lost_to_an_inotify_overflow_are_found_by_a_scan() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let gone = node.run(&PodSpec::job("gone"));
    let ends = node.run(&PodSpec::job("ends"));
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    agent.signal(Signal::SIGSTOP);
    let limit: usize = std::fs::read_to_string(LIMIT)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let passing = node.cgroup_root().join("kubepods/passing");
    for _ in 0..=limit / 2 {
        std::fs::create_dir(&passing).unwrap();
        std::fs::remove_dir(&passing).unwrap();
    }
    // The agent's queue is full: it gets no event of these.
    let new = node.run(&PodSpec::job("new"));
    let short = node.run(&PodSpec::job("short"));
    short.finish("app", 0);
    ends.finish("app", 0);
    drop(gone);
    agent.signal(Signal::SIGCONT);
    expect_quit(&agent, &ends);
    expect_quit(&agent, &short);
    finish_and_quit(&agent, &new);
    let label = "operation=\"inotify-overflow\"";
    agent.wait_metric("usher_discovery_errors_total", label, |count| count > 0.5);
    agent.log().wait("a complaint", |line| {
        let error = line["error"].as_str()?;
        error.contains("dropped inotify events").then_some(())
    });
    drop((ends, other, new, short));
    agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
}
