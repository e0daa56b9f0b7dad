//! The API server is unavailable, loses responses, or rejects requests.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use usher_tests::synthetic::api_server::Trouble;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, ApiServer, Node, PodSpec};

use crate::{enforcing, setup, wait_for, wait_mode, with};

fn finish(node: &Node, agent: &Agent, names: &[&str]) {
    let specs: Vec<PodSpec> = names.iter().map(|name| PodSpec::job(name)).collect();
    for pod in &node.run_all(&specs) {
        pod.finish("app", 0);
        agent.wait_for("sidecar-ended", &pod.name());
    }
}

/// No Event was created twice.
fn each_once(server: &ApiServer, count: usize) {
    let events = server.wait_events("all Events", |events| {
        (events.len() >= count).then(|| events.to_vec())
    });
    let notes = events.iter().map(|event| {
        let uid = event["regarding"]["uid"].to_string();
        (uid, event["reason"].to_string())
    });
    let different: BTreeSet<_> = notes.collect();
    assert_eq!((events.len(), different.len()), (count, count));
}

#[test]
fn events_are_sent_afterwards_with_their_timestamps() {
    let Some((node, server, agent)) = enforcing() else {
        return;
    };
    // The Namespace is known before.
    finish(&node, &agent, &["before"]);
    wait_for(&server, "SidecarQuit");
    server.away(true);
    let names = ["a", "b", "c", "d", "e", "f"];
    finish(&node, &agent, &names);
    let label = "result=\"sent\"";
    let sent = agent.metric("usher_events_total", label);
    assert!((sent - 1.0).abs() < 0.1, "{sent}");
    let back = Timestamp::now();
    // The response to the first is lost; the second is rejected, then its response is lost.
    server.trouble(&[
        Trouble::Lost,
        Trouble::Spared,
        Trouble::Status(500, None),
        Trouble::Lost,
    ]);
    server.away(false);
    each_once(&server, 1 + names.len());
    for event in with(&server.events(), "SidecarQuit") {
        let time: Timestamp = event["eventTime"].as_str().unwrap().parse().unwrap();
        assert!(time < back, "{event}");
    }
    agent.wait_metric("usher_events_queued", "", |queued| queued < 0.5);
    let posts = server.requests_for("create events").len();
    assert_eq!(posts, 1 + names.len() + 3, "three were sent again");
    for result in ["dropped", "failed"] {
        let label = format!("result=\"{result}\"");
        let count = agent.metric("usher_events_total", &label);
        assert!(count < 0.5, "{count} {result}");
    }
    let kept = || {
        let text = "could not send an Event; keeping it for later";
        agent.log().count(|line| line["message"] == text)
    };
    eventually("both complaints", || kept() >= 2);
    assert_eq!(kept(), 2);
}

#[test]
fn retry_after_is_respected() {
    let Some((node, server, agent)) = enforcing() else {
        return;
    };
    server.trouble(&[Trouble::Status(429, Some(3))]);
    finish(&node, &agent, &["one"]);
    each_once(&server, 1);
    let posts = server.requests_for("create events");
    let waited = posts[1].at - posts[0].at;
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
    assert_eq!(posts[0].body, posts[1].body);
}

#[test]
fn events_of_deleted_objects_and_rejected_events_are_dropped() {
    let Some((node, server, agent)) = enforcing() else {
        return;
    };
    let spec = PodSpec::job("gone");
    let pod = node.run(&spec);
    let namespace = pod.name().split('/').next().unwrap().to_owned();
    server.delete_namespace(&namespace);
    pod.finish("app", 0);
    let gone = "result=\"gone\"";
    agent.wait_metric("usher_events_total", gone, |count| count > 0.5);
    server.trouble(&[Trouble::Status(403, None)]);
    finish(&node, &agent, &["forbidden"]);
    let failed = "result=\"failed\"";
    agent.wait_metric("usher_events_total", failed, |count| count > 0.5);
    agent.log().wait("a complaint", |line| {
        let is_rejected = line["message"] == "the API server rejected an Event";
        is_rejected.then_some(())
    });
    agent.wait_metric("usher_events_queued", "", |queued| queued < 0.5);
    assert_eq!(server.events().len(), 0);
}

/// A server that has just started rejects every client.
#[test]
fn temporary_lack_of_permission_loses_no_event() {
    let Some((node, server, agent)) = enforcing() else {
        return;
    };
    server.forbid("create events");
    finish(&node, &agent, &["early"]);
    let failed = "result=\"failed\"";
    agent.wait_metric("usher_events_total", failed, |count| count > 0.5);
    server.allow("create events");
    each_once(&server, 1);
}

/// Two thousand different notices while the API server is unavailable.
#[test]
fn event_queue_is_bounded_and_losses_are_reported() {
    /// The queue is full after these.
    const FULL: u32 = 1100;
    /// The others, in two equal parts: the allocator may still add an arena during the first one.
    const PART: u32 = 450;
    const MANY: u32 = FULL + 2 * PART;
    let Some((node, server, agent)) = setup(&[], &[]) else {
        return;
    };
    wait_mode(&agent, "observe");
    node.configure("defaults: {quit: true}\n");
    agent.wait_metric("usher_config_reloads_total", "result=\"ok\"", |found| {
        found > 1.5
    });
    server.away(true);
    // Returns the resident memory afterwards.
    let reject = |numbers: Range<u32>| {
        for number in numbers {
            node.configure(&format!("wrong{number}: {}\n", "x".repeat(200)));
            let wanted = f64::from(number) + 0.5;
            let label = "result=\"rejected\"";
            agent.wait_metric("usher_config_reloads_total", label, |found| found > wanted);
        }
        agent.usage().resident_kib
    };
    let full = reject(0..FULL);
    let first = reject(FULL..FULL + PART);
    let second = reject(FULL + PART..MANY);
    let queued = agent.metric("usher_events_queued", "");
    assert!((1000.0..=1025.0).contains(&queued), "{queued}");
    let dropped = agent.metric("usher_events_total", "result=\"dropped\"");
    let all = queued + dropped;
    assert!(
        (all - f64::from(MANY)).abs() < 1.5,
        "{queued} and {dropped}"
    );
    let grown = [first.saturating_sub(full), second.saturating_sub(first)];
    assert!(
        grown.iter().any(|kib| *kib < 2 * 1024),
        "{grown:?} KiB more"
    );
    server.away(false);
    let event = wait_for(&server, "EventsDropped");
    let note = event["note"].as_str().unwrap();
    assert!(
        note.starts_with(&format!("{dropped} Events were dropped")),
        "{note}"
    );
    assert_eq!(event["regarding"]["kind"], "Node");
}

/// The agent continues during a slow request.
#[test]
fn decisions_do_not_wait_for_the_api_server() {
    let Some((node, server, agent)) = enforcing() else {
        return;
    };
    finish(&node, &agent, &["before"]);
    wait_for(&server, "SidecarQuit");
    let pods = node.run_all(&["one", "two"].map(PodSpec::job));
    server.silent(true);
    for pod in &pods {
        pod.finish("app", 0);
        agent.wait_for("sidecar-ended", &pod.name());
        server.wait_kept();
    }
    // The request about the first pod has no response yet.
    assert!(server.kept() > 0);
    server.silent(false);
    each_once(&server, 3);
}
