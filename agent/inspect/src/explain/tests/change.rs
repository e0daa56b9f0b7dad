//! What would change what usher does with a pod, word for word.

use serde_json::json;

use super::{
    Mode, Scene, healthy,
    pods::{app, istio, job, native},
};

const SHOWN_OUT: &str = "istio-proxy by POST :15020/quitquitquit is shown out";
const SHOWN_OUT_THEN: &str =
    "istio-proxy by POST :15020/quitquitquit is shown out, when its apps have ended";
const QUIT: &str = "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite";
const HOLD: &str = "kubectl annotate node node-1 usher.dev/hold=enforce --overwrite";
const WAIT: &str = "connections of its apps wait until istio-proxy is ready";
const NEXT_WAIT: &str =
    "in the next pod like it connections of its apps wait until istio-proxy is ready";
const ENDS: &str = "app ends for good";

#[track_caller]
fn assert_changes(scene: &Scene, expected: &[(&str, &str)]) {
    let changes = scene.explain().changes;
    let changes = changes.iter().map(|one| (&one.then[..], &one.when[..]));
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

/// A pod whose containers have not begun.
fn young() -> Scene {
    Scene::new(job(&[app(json!({})), istio(json!({}))]))
}

#[test]
fn mode_of_the_node_is_what_keeps_usher_from_it() {
    for mode in [Mode::Off, Mode::Observe] {
        let young = young().mode(mode);
        assert_changes(&young, &[(SHOWN_OUT_THEN, QUIT), (WAIT, HOLD)]);
        let running = healthy().mode(mode);
        assert_changes(&running, &[(SHOWN_OUT_THEN, QUIT), (NEXT_WAIT, HOLD)]);
        let ended = running.ended("app", 60, 1, 0);
        assert_changes(&ended, &[(SHOWN_OUT, QUIT), (NEXT_WAIT, HOLD)]);
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
    let waits = "the connections that wait go on";
    let ready = "istio-proxy is ready, or the deadline of 30s comes";
    let young = young().mode(Mode::Enforce);
    assert_changes(&young, &[(SHOWN_OUT, ENDS)]);
    for armed in ["hold-armed", "hold-adopted"] {
        let held = young.clone().decided(3, armed, "connections wait");
        assert_changes(&held, &[(SHOWN_OUT, ENDS), (waits, ready)]);
        let opened = held.decided(1, "hold-released", "the sidecar is ready");
        assert_changes(&opened, &[(SHOWN_OUT, ENDS)]);
    }
    let ended = healthy().mode(Mode::Enforce).ended("app", 60, 1, 0);
    assert_changes(&ended, &[]);
}

#[test]
fn opt_outs_are_named_where_they_stand() {
    let off = "without metadata.annotations[usher.dev/quit] = \"false\"";
    let quit = healthy().annotation("usher.dev/quit", "false");
    assert_changes(&quit, &[(SHOWN_OUT, off), (NEXT_WAIT, HOLD)]);
    let hold = healthy().annotation("usher.dev/hold", "false");
    let then = "connections of its apps wait until its sidecar is ready";
    let off = "without metadata.annotations[usher.dev/hold] = \"false\"";
    assert_changes(&hold, &[(SHOWN_OUT_THEN, QUIT), (then, off)]);
}

#[test]
fn nothing_would_change_what_is_not_ushers() {
    let service = healthy().policy("Always");
    assert_changes(&service, &[(NEXT_WAIT, HOLD)]);
    let native = Scene::new(native(&[app(json!({}))]));
    assert_changes(&native, &[]);
    let named = (
        "a container of it is shown out when the others have ended",
        "metadata:\n  annotations:\n    usher.dev/sidecars: \"NAME\"",
    );
    let plain = Scene::new(job(&[app(json!({}))])).running("app", 60);
    assert_changes(&plain, &[named]);
    // Without a sidecar there is nothing to wait for, whether or not somebody opted out of it.
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
