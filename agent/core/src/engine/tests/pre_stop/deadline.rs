//! The deadline of an app's stop signal: before that of its sidecars, and brought forward while the signal waits.

use super::*;

/// A deleted pod with a long grace period. The stop signal of its app is held.
fn held() -> Stage {
    let spec = Pod {
        grace: seconds(600),
        ..pod(RestartPolicy::Always, &["app"])
    };
    let mut stage = stage(Mode::Enforce, annotated(spec, "usher.dev/pre-stop", "10m"));
    assert_eq!(stage.take(), ["stops [app 598s]"]);
    stage.delete(600, 0);
    stage.app_stop(StopResult::Held { at: NOON });
    stage.list();
    assert_eq!(stage.take(), ["app pre-stop-held"]);
    stage
}

/// `kubectl delete --grace-period=10`.
#[test]
fn later_shorter_deadline_is_kept() {
    let mut stage = held();
    stage.pass(seconds(5));
    stage.delete(10, 0);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["stops [app 8s]"]);
    stage.pass(seconds(1));
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.app_released_after(seconds(8), false);
    assert!(
        line.contains("the rest of the pod's grace period"),
        "{line}"
    );
    stage.take();
    // The kubelet does not shorten the stop that it has begun.
    stage.pass(seconds(592));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["a SIGKILL", "app linger-killed"]);
}

/// The new deadline is over when it is noticed.
#[test]
fn deadline_in_the_past_releases_at_once() {
    let mut stage = held();
    stage.pass(seconds(200));
    stage.delete(60, 0);
    stage.pass(seconds(2));
    assert!(stage.take().contains(&"stops []".to_owned()));
    stage.app_released_after(seconds(202), false);
    stage.take();
    stage.pass(seconds(398));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["a SIGKILL", "app linger-killed"]);
}

/// The new grace period, counted from the second deletion, would end after the first one.
#[test]
fn later_deletion_does_not_extend_the_grace_period() {
    let mut stage = held();
    stage.pass(seconds(580));
    stage.delete(60, 0);
    stage.pass(seconds(2));
    stage.app_released_after(seconds(582), false);
    stage.take();
    stage.pass(seconds(18));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["a SIGKILL", "app linger-killed"]);
}

/// `kubectl delete --force --grace-period=0`.
#[test]
fn unlisted_pod_is_released() {
    let mut stage = held();
    stage.now = stage.now + seconds(2);
    stage.send(Event::Timer);
    assert!(stage.lists_pods);
    stage.answer_with(Vec::new());
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.app_released(false);
    assert!(line.contains("no longer lists the pod"), "{line}");
}

/// The sidecars are there until the app has had its signal, and a time to end.
#[test]
fn app_has_its_signal_before_the_sidecars_that_linger() {
    for (pre_stop, grace, linger, expected) in [
        ("auto", 30, "true", "stops [istio-proxy 23s, app 21s]"),
        ("25s", 30, "true", "stops [istio-proxy 23s, app 21s]"),
        ("10s", 30, "true", "stops [istio-proxy 23s, app 10s]"),
        ("auto", 30, "22s", "stops [istio-proxy 22s, app 20s]"),
        ("auto", 30, "21s", "stops [istio-proxy 21s, app 19s]"),
        // The annotation ends the sidecar's wait before.
        ("auto", 30, "20s", "stops [istio-proxy 20s, app 28s]"),
        ("auto", 30, "false", "stops [app 28s]"),
        // Half of the sidecar's time.
        ("auto", 10, "true", "stops [istio-proxy 3s, app 1.5s]"),
        ("auto", 3, "true", "stops [istio-proxy 1s, app 500ms]"),
    ] {
        let spec = Pod {
            grace: seconds(grace),
            ..pod(RestartPolicy::Always, &["app"])
        };
        let spec = annotated(spec, "usher.dev/linger", linger);
        let spec = annotated(spec, "usher.dev/pre-stop", pre_stop);
        assert_eq!(stage(Mode::Enforce, spec).take(), [expected]);
    }
}

/// The holder's limit is the rest of the grace period, which is shorter than the annotation's time.
#[test]
fn holder_that_releases_before_the_time_has_passed() {
    let mut stage = held();
    let line = stage.app_released_after(seconds(598), true);
    assert!(
        line.contains("the rest of the pod's grace period"),
        "{line}"
    );
}
