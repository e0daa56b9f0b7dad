//! Decisions about a pod are known to the next agent, too.

use std::fs::OpenOptions;
use std::io::Write;

use serde_json::Value;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, PodSpec};
use usher_tests::wait::{found_within, patience};

use crate::{enforcing, finish_and_quit, kernel};

/// The timeline's entries about a pod: decision and reason.
fn entries(node: &Node, pod: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(node.run_dir().join("timeline.jsonl")).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_pod = lines.filter(|line| line["pod"] == pod || line["pod"] == line["uid"]);
    let word = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    of_pod
        .map(|line| (word(&line, "decision"), word(&line, "reason")))
        .collect()
}

#[test]
fn records_every_decision_and_survives_a_kill() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("timeline"));
    // The app exits only after the agent has observed it.
    agent.wait_metric("usher_decisions_total", "decision=\"waiting\"", |_| {
        let reported = entries(&node, &pod.name());
        reported
            .iter()
            .any(|(_, reason)| reason.contains("app runs"))
    });
    finish_and_quit(&agent, &pod);
    // A decision is reported before it is written.
    eventually("the journal's last entry", || {
        let reported = entries(&node, &pod.name());
        reported
            .last()
            .is_some_and(|(last, _)| last == "sidecar-ended")
    });
    agent.kill();
    let before = entries(&node, &pod.name());
    let reported: Vec<&str> = before
        .iter()
        .map(|(reported, _)| reported.as_str())
        .collect();
    assert!(reported.starts_with(&["waiting"]), "{reported:?}");
    // On a busy machine the exit of the sidecar is observed before its response.
    let end: Vec<&str> = reported
        .iter()
        .copied()
        .filter(|decision| ["pod-finished", "sidecar-ended"].contains(decision))
        .collect();
    assert_eq!(end, ["pod-finished", "sidecar-ended"], "{reported:?}");
    let runs = before.iter().any(|(_, reason)| reason.contains("app runs"));
    assert!(runs, "{before:?}");
    let code = &before.last().unwrap().1;
    assert!(code.contains(kernel::ended_as_requested()), "{code}");
    // The state that a killed agent leaves in the middle of a write.
    let journal = node.run_dir().join("timeline.jsonl");
    let mut torn = OpenOptions::new().append(true).open(&journal).unwrap();
    torn.write_all(br#"{"at_ms":1,"uid":"0d7"#).unwrap();
    let agent = Agent::start(&node);
    let again = node.run(&PodSpec::job("again"));
    finish_and_quit(&agent, &again);
    let mut after = entries(&node, &pod.name());
    after.retain(|entry| before.contains(entry));
    assert_eq!(after[..before.len()], before);
    assert!(!entries(&node, &again.name()).is_empty());
}

#[test]
fn records_pods_that_are_not_ours_with_a_reason() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::new("alone").with(ContainerSpec::app("app")));
    agent.wait_metric(
        "usher_decisions_total",
        "decision=\"not-applicable\"",
        |count| count == 1.0,
    );
    // A decision is counted before it is written.
    let (_decision, reason) = found_within(patience(), "the journal's entry", || {
        let mut reported = entries(&node, &pod.name()).into_iter();
        reported.find(|(decision, _)| decision == "not-applicable")
    });
    assert!(
        reason.contains("no recipe recognizes a sidecar"),
        "{reason}"
    );
}

#[test]
fn unwritable_run_directory_loses_only_the_timeline() {
    let Some(node) = enforcing() else { return };
    // A directory at the path of the timeline.
    std::fs::create_dir(node.run_dir().join("timeline.jsonl")).unwrap();
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("report"));
    finish_and_quit(&agent, &pod);
    assert!(agent.metric("usher_timeline_errors_total", "") >= 1.0);
}
