//! The watch on the agent's own Node, and Events about it.

use usher_tests::synthetic::{Agent, ApiServer};

use crate::{enforcing, received_only, setup, wait_for, wait_mode, with};

fn follows(server: &ApiServer, agent: &Agent, mode: &str) {
    server.annotate(&[("usher.dev/mode", mode)]);
    wait_mode(agent, mode);
}

#[test]
fn node_change_applies_at_once_without_a_list() {
    let Some((_node, server, agent)) = enforcing() else {
        return;
    };
    for mode in ["off", "observe", "enforce"] {
        follows(&server, &agent, mode);
    }
    server.wait_requests("watch nodes", 1);
    assert_eq!(server.requests_for("get nodes").len(), 1);
    let watches = server.requests_for("watch nodes");
    assert_eq!(watches.len(), 1);
    let query = &watches[0].query;
    for part in [
        "fieldSelector=metadata.name%3Dsynthetic-node",
        "resourceVersion=",
        "allowWatchBookmarks=true",
    ] {
        assert!(query.contains(part), "{query}");
    }
    let mut parameters = query.split('&');
    let seconds = parameters.find_map(|parameter| parameter.strip_prefix("timeoutSeconds="));
    let seconds: u32 = seconds.unwrap().parse().unwrap();
    assert!((240..=480).contains(&seconds), "{query}");
    received_only(&server, &[]);
}

#[test]
fn expired_or_closed_watch_restarts() {
    let Some((_node, server, agent)) = enforcing() else {
        return;
    };
    for (round, expired) in [(2, true), (3, false), (4, true)] {
        server.wait_requests("watch nodes", round - 1);
        server.end_watches(expired);
        server.wait_requests("get nodes", round);
        server.wait_requests("watch nodes", round);
        follows(&server, &agent, if expired { "off" } else { "enforce" });
    }
    let errors = agent.metric("usher_node_watch_errors_total", "");
    assert!(errors < 0.5, "that is no error: {errors}");
    received_only(&server, &[]);
}

#[test]
fn change_during_an_outage_is_detected() {
    let Some((_node, server, agent)) = enforcing() else {
        return;
    };
    server.away(true);
    agent.wait_metric("usher_node_watch_errors_total", "", |count| count > 1.5);
    server.annotate(&[("usher.dev/mode", "off")]);
    server.away(false);
    wait_mode(&agent, "off");
    let again = "watching the Node again";
    agent
        .log()
        .wait(again, |line| (line["message"] == again).then_some(()));
    let lines = agent.log().lines();
    let count_of = |text| lines.iter().filter(|line| line["message"] == text).count();
    let lost = "lost the watch on the Node, retrying; its last annotations stay in use";
    assert_eq!(count_of(lost), 1);
    assert_eq!(count_of(again), 1);
}

#[test]
fn broken_configuration_and_its_repair_are_reported() {
    let Some((node, server, agent)) = setup(&[], &[]) else {
        return;
    };
    wait_mode(&agent, "observe");
    node.configure("defaults: {quit: perhaps}\n");
    let event = wait_for(&server, "ConfigurationRejected");
    assert_eq!(event["regarding"]["kind"], "Node");
    assert_eq!(event["regarding"]["uid"], "synthetic-node");
    assert_eq!(event["metadata"]["namespace"], "default");
    let note = event["note"].as_str().unwrap();
    assert!(note.contains("config.yaml:1:"), "{note}");
    node.configure("defaults: {quit: true}\n");
    wait_for(&server, "ConfigurationAccepted");
}

/// The same Event again creates no new object.
#[test]
fn repeated_events_form_a_series() {
    let annotations = [("usher.dev/mode", "enforced")];
    let Some((_node, server, agent)) = setup(&annotations, &[]) else {
        return;
    };
    let event = wait_for(&server, "InvalidAnnotation");
    assert_eq!(event["series"]["count"].as_u64(), None);
    // The modes in use stay the same.
    server.annotate(&[
        ("usher.dev/mode", "enforced"),
        ("usher.dev/hold", "observe"),
    ]);
    let event = server.wait_events("a series", |events| {
        let found = with(events, "InvalidAnnotation");
        assert_eq!(found.len(), 1);
        (found[0]["series"]["count"] == 2).then(|| found[0].clone())
    });
    assert!(event["series"]["lastObservedTime"].is_string());
    let first = event["eventTime"].as_str().unwrap();
    assert!(first < event["series"]["lastObservedTime"].as_str().unwrap());
    received_only(&server, &[]);
    drop(agent);
}
