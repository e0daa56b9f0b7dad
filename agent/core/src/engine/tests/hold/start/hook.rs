//! Apps with a `postStart` hook: the kubelet creates the next container after it.

use super::super::start::*;
use crate::pod::spec::Container;

/// A pod of these containers, in this order; those with `+` have a hook.
fn hooked(names: &[&str]) -> Pod {
    let containers = names.iter().map(|name| Container {
        has_post_start: name.ends_with('+'),
        ..container(name.trim_end_matches('+'))
    });
    Pod {
        containers: containers.collect(),
        ..istio()
    }
}

/// What is held of the starts of an announced pod.
fn starts(spec: Pod) -> Vec<String> {
    let mut stage = held(Mode::Enforce, requesting_held_start(spec));
    stage.announce();
    let output = stage.take_hold();
    output[1..].to_vec()
}

const NOT_HELD: &str = "start-not-held: its start is not held: the kubelet creates istio-proxy only after its postStart hook, \
                        which may wait for the app; its connections are held";

/// The hook may wait for the app, the app would wait for the sidecar, and the sidecar is created after the hook.
#[test]
fn app_with_a_hook_before_its_sidecar_is_not_held() {
    assert_eq!(starts(hooked(&["app+", PROXY])), [NOT_HELD]);
    let two = starts(hooked(&["app+", "other", PROXY]));
    assert_eq!(two, [NOT_HELD, "starts [other 30s]"]);
}

#[test]
fn hook_that_no_sidecar_waits_for() {
    for names in [
        [PROXY, "app+"],
        // The sidecar's own, as Istio's `holdApplicationUntilProxyStarts` sets it.
        ["app", "istio-proxy+"],
    ] {
        assert_eq!(starts(hooked(&names)), ["starts [app 30s]"], "{names:?}");
    }
    // Connections wait for no port of this one.
    let names = [PROXY, "app+", "other"];
    let starts = starts(hooked(&names));
    assert_eq!(starts, ["starts [app 30s, other 30s]"]);
}

#[test]
fn dry_run_names_the_hook() {
    let stage = held(
        Mode::Enforce,
        requesting_held_start(hooked(&["app+", PROXY])),
    );
    let hold = stage.forecast(None).hold;
    let start = &hold.starts[0];
    let why =
        "the kubelet creates istio-proxy only after its postStart hook, which may wait for the app";
    assert_eq!((start.limit_ms, start.why.as_deref()), (None, Some(why)));
    // The connections of the hook itself are held.
    let stage = held(Mode::Enforce, hooked(&["app+", PROXY]));
    let because = stage.forecast(None).hold.because;
    let connects = "istio-proxy is created only after the postStart hook of app: if the hook connects to a held port, it waits until the deadline";
    assert!(because.contains(&connects.to_owned()), "{because:?}");
    let stage = held(Mode::Enforce, hooked(&[PROXY, "app+"]));
    let because = stage.forecast(None).hold.because;
    assert_eq!(because, ["its apps have not begun"]);
}
