//! `usher log`.

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Node, PodSpec};

use crate::{answer, enforcing, json, run};

/// Whether the agent logs with its initial filter.
fn is_as_at_the_start(node: &Node) -> bool {
    let log = json(node, &["log"]);
    log["filter"] == log["base"] && log["revertsInMs"].is_null()
}

#[test]
fn log_filter_is_reset_after_its_duration() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    assert!(is_as_at_the_start(&node));
    let debug = |time: &str| {
        let level = ["log", "--level", "agent::kubernetes::kubelet=debug"];
        let stdout = answer(&node, &[&level[..], &["--for", time]].concat());
        let text = "info,usher_agent::kubernetes::kubelet=debug for another ";
        assert!(stdout.starts_with(text), "{stdout}");
        assert!(stdout.ends_with(", then info\n"), "{stdout}");
        stdout[text.len()..].to_owned()
    };
    // Long enough for the start of a pod on a busy machine.
    debug("1h");
    let _pod = node.run(&PodSpec::job("asked"));
    agent
        .log()
        .wait("a line that is not there at info", |line| {
            (line["message"] == "listed the kubelet's pods").then_some(())
        });
    let left = debug("4s");
    assert!(left.starts_with("4s"), "{left}");
    agent.log().wait("the end of it", |line| {
        (line["message"] == "reverted the log filter").then_some(())
    });
    assert!(is_as_at_the_start(&node));
}

#[test]
fn second_request_replaces_the_duration() {
    let Some(node) = enforcing() else { return };
    let _agent = Agent::start(&node);
    answer(&node, &["log", "--level", "debug", "--for", "1s"]);
    answer(&node, &["log", "--level", "core=trace", "--for", "1h"]);
    let log = json(&node, &["log"]);
    assert_eq!(log["filter"], "info,usher_core=trace");
    let is_second = || json(&node, &["log"])["revertsInMs"].as_u64();
    // More than a second has passed since the first request.
    eventually("time to pass", || {
        is_second().is_none_or(|left| left < 3_598_500)
    });
    assert_eq!(json(&node, &["log"])["filter"], "info,usher_core=trace");
    answer(&node, &["log", "--reset"]);
    assert!(is_as_at_the_start(&node));
}

#[test]
fn invalid_directive_is_rejected() {
    let Some(node) = enforcing() else { return };
    let _agent = Agent::start(&node);
    for (arguments, words) in [
        (
            &["--level", "agent::nft=debgu"][..],
            "invalid level \"debgu\"",
        ),
        (
            &["--level", "not a module=debug"],
            "invalid module \"not a module\"",
        ),
        (&["--level", "debug", "--for", "100ms"], "1s to 24h"),
    ] {
        let ran = run(&node, &[&["log"], arguments].concat());
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
    assert_eq!(run(&node, &["log", "--for", "5s"]).code, Some(2));
    assert!(is_as_at_the_start(&node));
}

#[test]
fn needs_an_agent() {
    let Some(node) = enforcing() else { return };
    let ran = run(&node, &["log"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("this needs the agent"), "{ran:?}");
}
