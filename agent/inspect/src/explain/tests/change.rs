//! The exact texts of changes.

use serde_json::json;
use usher_core::hold::Released;

use super::{
    Detail, Mode, Scenario, healthy,
    pods::{ARMED, app, istio, job, native, released},
};

const TERMINATES: &str = "usher terminates istio-proxy by POST :15020/quitquitquit";
const TERMINATES_LATER: &str =
    "usher terminates istio-proxy by POST :15020/quitquitquit, after its apps end";
const QUIT: &str = "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite";
const HOLD: &str = "kubectl annotate node node-1 usher.dev/hold=enforce --overwrite";
const WAIT: &str = "usher holds its apps' connections until istio-proxy is ready";
const NEXT_WAIT: &str =
    "usher holds the connections of the next pod like it until istio-proxy is ready";
const ENDS: &str = "app ends for good";

#[track_caller]
fn assert_changes(scenario: &Scenario, expected: &[(&str, &str)]) {
    let changes = scenario.explain().changes;
    let changes = changes.iter().map(|one| (&one.then[..], &one.when[..]));
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

/// A pod without started containers.
fn young() -> Scenario {
    Scenario::new(job(&[app(json!({})), istio(json!({}))]))
}

#[test]
fn node_mode_prevents_the_action() {
    for mode in [Mode::Off, Mode::Observe] {
        let young = young().mode(mode);
        assert_changes(&young, &[(TERMINATES_LATER, QUIT), (WAIT, HOLD)]);
        let running = healthy().mode(mode);
        assert_changes(&running, &[(TERMINATES_LATER, QUIT), (NEXT_WAIT, HOLD)]);
        let ended = running.ended("app", 60, 1, 0);
        assert_changes(&ended, &[(TERMINATES, QUIT), (NEXT_WAIT, HOLD)]);
    }
    let mut unknown = healthy();
    unknown.seen.modes = None;
    assert_changes(&unknown, &[]);
    let mut nowhere = healthy();
    nowhere.pod["spec"]["nodeName"] = json!("");
    assert_eq!(
        nowhere.explain().changes[0].when,
        "kubectl annotate node NODE usher.dev/quit=enforce --overwrite"
    );
}

#[test]
fn requested_action_is_only_awaited() {
    let waits = "usher releases the held connections";
    let ready = "istio-proxy is ready, or the deadline of 30s passes";
    let young = young().mode(Mode::Enforce);
    assert_changes(&young, &[(TERMINATES, ENDS)]);
    let adopted = Detail::HoldAdopted { ports: Vec::new() };
    for armed in [ARMED, adopted] {
        let held = young.clone().decided(3, armed, "connections wait");
        assert_changes(&held, &[(TERMINATES, ENDS), (waits, ready)]);
        let opened = held.decided(1, released(Released::Ready, 0), "the sidecar is ready");
        assert_changes(&opened, &[(TERMINATES, ENDS)]);
    }
    let ended = healthy().mode(Mode::Enforce).ended("app", 60, 1, 0);
    assert_changes(&ended, &[]);
}

#[test]
fn opt_outs_are_named_with_their_object() {
    let off = "remove metadata.annotations[usher.dev/quit] = \"false\"";
    let quit = healthy().annotation("usher.dev/quit", "false");
    assert_changes(&quit, &[(TERMINATES, off), (NEXT_WAIT, HOLD)]);
    let hold = healthy().annotation("usher.dev/hold", "false");
    let then = "usher holds its apps' connections until its sidecar is ready";
    let off = "remove metadata.annotations[usher.dev/hold] = \"false\"";
    assert_changes(&hold, &[(TERMINATES_LATER, QUIT), (then, off)]);
}

#[test]
fn pods_out_of_scope_have_no_quit_change() {
    let service = healthy().policy("Always");
    assert_changes(&service, &[(NEXT_WAIT, HOLD)]);
    let native = Scenario::new(native(&[app(json!({}))]));
    assert_changes(&native, &[]);
    let named = (
        "usher terminates the named container after the other containers end",
        "metadata:\n  annotations:\n    usher.dev/sidecars: \"NAME\"",
    );
    let plain = Scenario::new(job(&[app(json!({}))])).running("app", 60);
    assert_changes(&plain, &[named]);
    // Without a sidecar usher holds nothing, with or without an opt-out.
    let opted = |scenario: Scenario| scenario.annotation("usher.dev/hold", "false");
    assert_changes(&opted(plain), &[named]);
    assert_changes(&opted(native), &[]);
}

#[test]
fn ended_pod_has_no_change() {
    let mut deleted = healthy();
    deleted.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    assert_changes(&deleted, &[]);
    assert_changes(&healthy().reason("Failed", "Evicted"), &[]);
}
