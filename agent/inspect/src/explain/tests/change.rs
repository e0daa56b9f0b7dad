//! The exact texts of changes.

use serde_json::json;
use usher_core::hold::Opened;

use super::{
    Detail, Mode, Scene, healthy,
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
fn assert_changes(scene: &Scene, expected: &[(&str, &str)]) {
    let changes = scene.explain().changes;
    let changes = changes.iter().map(|one| (&one.then[..], &one.when[..]));
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

/// A pod without started containers.
fn young() -> Scene {
    Scene::new(job(&[app(json!({})), istio(json!({}))]))
}

#[test]
fn mode_of_the_node_is_what_keeps_usher_from_it() {
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
fn what_is_done_already_is_only_waited_for() {
    let waits = "usher releases the held connections";
    let ready = "istio-proxy is ready, or the deadline of 30s passes";
    let young = young().mode(Mode::Enforce);
    assert_changes(&young, &[(TERMINATES, ENDS)]);
    let adopted = Detail::HoldAdopted { ports: Vec::new() };
    for armed in [ARMED, adopted] {
        let held = young.clone().decided(3, armed, "connections wait");
        assert_changes(&held, &[(TERMINATES, ENDS), (waits, ready)]);
        let opened = held.decided(1, released(Opened::Ready, 0), "the sidecar is ready");
        assert_changes(&opened, &[(TERMINATES, ENDS)]);
    }
    let ended = healthy().mode(Mode::Enforce).ended("app", 60, 1, 0);
    assert_changes(&ended, &[]);
}

#[test]
fn opt_outs_are_named_where_they_stand() {
    let off = "remove metadata.annotations[usher.dev/quit] = \"false\"";
    let quit = healthy().annotation("usher.dev/quit", "false");
    assert_changes(&quit, &[(TERMINATES, off), (NEXT_WAIT, HOLD)]);
    let hold = healthy().annotation("usher.dev/hold", "false");
    let then = "usher holds its apps' connections until its sidecar is ready";
    let off = "remove metadata.annotations[usher.dev/hold] = \"false\"";
    assert_changes(&hold, &[(TERMINATES_LATER, QUIT), (then, off)]);
}

#[test]
fn nothing_would_change_what_is_not_ushers() {
    let service = healthy().policy("Always");
    assert_changes(&service, &[(NEXT_WAIT, HOLD)]);
    let native = Scene::new(native(&[app(json!({}))]));
    assert_changes(&native, &[]);
    let named = (
        "usher terminates the named container after the other containers end",
        "metadata:\n  annotations:\n    usher.dev/sidecars: \"NAME\"",
    );
    let plain = Scene::new(job(&[app(json!({}))])).running("app", 60);
    assert_changes(&plain, &[named]);
    // Without a sidecar usher holds nothing, with or without an opt-out.
    let opted = |scene: Scene| scene.annotation("usher.dev/hold", "false");
    assert_changes(&opted(plain), &[named]);
    assert_changes(&opted(native), &[]);
}

#[test]
fn pod_that_is_over_is_past_change() {
    let mut deleted = healthy();
    deleted.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    assert_changes(&deleted, &[]);
    assert_changes(&healthy().reason("Failed", "Evicted"), &[]);
}
