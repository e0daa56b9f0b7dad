//! The longest hold of a stop signal, and the end of a sidecar that ignores it.

use super::*;

#[test]
fn grace_period_without_time_is_reported_once() {
    let spec = Pod {
        grace: seconds(2),
        ..requested()
    };
    let mut stage = stage(Mode::Enforce, spec);
    stage.list();
    assert_eq!(stage.take(), ["istio-proxy linger-unsupported"]);
    let line = stage
        .log
        .iter()
        .find(|line| line.contains("linger-unsupported"));
    assert!(
        line.unwrap()
            .contains("the pod's grace period of 2s leaves no time")
    );
}

/// The holder releases at its limit, which is the annotation's or the rest of the grace period.
#[test]
fn annotation_with_a_duration_limits_the_hold() {
    for (linger, limit, expected) in [
        ("10s", 10, "its limit has passed"),
        ("25s", 23, "the rest of the pod's grace period"),
        ("true", 23, "the rest of the pod's grace period"),
    ] {
        let spec = annotated(pod(RestartPolicy::Always, &["app"]), linger);
        let mut stage = stage(Mode::Enforce, spec);
        assert_eq!(stage.take(), [format!("stops [istio-proxy {limit}s]")]);
        stage.delete(30, 0);
        stage.held_at(NOON);
        stage.list();
        let line = stage.released_after(seconds(limit), true);
        assert!(line.contains(expected), "{line}");
        assert_eq!(stage.take(), [HELD, DRAIN, RELEASED, "stops []"]);
    }
}

/// The holder applied the annotation's limit while the agent was stopped, which sees the end of the sidecar first.
#[test]
fn limit_that_passed_while_the_agent_was_stopped() {
    let spec = annotated(pod(RestartPolicy::Always, &["app"]), "8s");
    let mut stage = stage(Mode::Enforce, spec);
    stage.delete(30, 0);
    stage.held_at(NOON);
    stage.list();
    stage.take();
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.released_after(seconds(8), true);
    assert!(line.contains("its limit has passed"), "{line}");
}

#[test]
fn kubelet_that_does_not_reply_releases_it() {
    let mut stage = armed(requested());
    stage.held_at(NOON);
    stage.take();
    stage.lists_pods = false;
    stage.send(Event::PodsUnavailable);
    for _ in 0..31 {
        stage.now = stage.now + Duration::from_millis(100);
        stage.lists_pods = false;
        stage.send(Event::Timer);
    }
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.stop_released(false);
    assert!(line.contains("did not confirm"), "{line}");
}

#[test]
fn rest_of_the_grace_period_is_for_the_sidecar() {
    let mut stage = Stage::lingering(requested());
    stage.pass(seconds(22));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.stop_released(false);
    assert!(
        line.contains("the rest of the pod's grace period"),
        "{line}"
    );
}

/// The deletion began 10 s before the signal: the sidecar's preStop hook ran.
#[test]
fn deadline_is_that_of_the_deletion() {
    let mut stage = armed(requested());
    stage.delete(30, 10);
    stage.held_at(NOON);
    stage.list();
    // The holder's own limit is the same: it applies where the agent is stopped.
    assert_eq!(stage.take(), [HELD, DRAIN, "stops [istio-proxy 13s]"]);
    stage.pass(seconds(12));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["stops []"]);
}

#[test]
fn shorter_grace_period_of_the_deletion_is_kept() {
    let mut stage = armed(requested());
    stage.delete(9, 0);
    stage.held_at(NOON);
    stage.list();
    stage.take();
    stage.pass(seconds(3));
    assert!(stage.take().contains(&"stops []".to_owned()));
}

/// The app ends at the holder's limit.
#[test]
fn limit_after_the_end_of_the_apps_is_no_early_release() {
    let mut stage = Stage::lingering(requested());
    stage.exit("a", 0);
    let line = stage.released_after(seconds(23), true);
    assert!(!line.contains("an app still runs"), "{line}");
}

/// `kubectl delete --now`.
#[test]
fn grace_period_that_is_too_short_is_the_reason() {
    let mut stage = armed(requested());
    stage.delete(1, 0);
    stage.held_at(NOON);
    stage.list();
    assert!(stage.take().contains(&"stops []".to_owned()));
    let line = stage.stop_released(false);
    assert!(
        line.contains("the rest of the pod's grace period"),
        "{line}"
    );
}

/// `kubectl delete --grace-period=15` while the signal waits. Nothing else happens in the pod.
#[test]
fn later_shorter_deadline_is_kept() {
    let mut stage = Stage::lingering(requested());
    stage.pass(seconds(5));
    stage.delete(15, 0);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["stops [istio-proxy 8s]"]);
    stage.pass(seconds(1));
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.stop_released(false);
    assert!(
        line.contains("the rest of the pod's grace period"),
        "{line}"
    );
}

/// The second deletion comes during the `preStop` hook. The kubelet does not shorten the stop that has begun.
#[test]
fn grace_period_of_the_first_deletion_stays() {
    let mut stage = armed(requested());
    stage.delete(60, 0);
    stage.list();
    stage.delete(20, 0);
    stage.held_at(NOON);
    stage.list();
    stage.pass(seconds(16));
    stage.released_after(seconds(16), false);
    stage.take();
    stage.pass(seconds(44));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["i SIGKILL", "istio-proxy linger-killed"]);
}

/// `kubectl delete --force --grace-period=0`.
#[test]
fn unlisted_pod_is_released() {
    let mut stage = Stage::lingering(requested());
    assert!(!stage.lists_pods);
    stage.now = stage.now + seconds(2);
    stage.send(Event::Timer);
    assert!(stage.lists_pods);
    stage.answer_with(Vec::new());
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.stop_released(false);
    assert!(line.contains("no longer lists the pod"), "{line}");

    // A list that was requested before the signal proves nothing.
    let mut stage = armed(requested());
    stage.mode(Mode::Off);
    assert!(stage.lists_pods);
    stage.now = stage.now + Duration::from_millis(5);
    stage.held_at(NOON);
    stage.take();
    stage.answer_with(Vec::new());
    assert_eq!(stage.take(), [""; 0]);
}

#[test]
fn kubelet_is_queried_only_while_a_signal_waits() {
    let lists = |stage: &Stage| {
        let fetch = |action: &&crate::Action| matches!(action, crate::Action::FetchPods);
        stage.actions.iter().filter(fetch).count()
    };
    let mut stage = Stage::lingering(requested());
    let before = lists(&stage);
    stage.pass(seconds(20));
    assert_eq!(lists(&stage) - before, 10);
    stage.pass(seconds(4));
    stage.stop_released(false);
    stage.exit("i", 0);
    // The one that was requested before the release.
    stage.pass(seconds(2));
    let before = lists(&stage);
    stage.pass(seconds(60));
    assert_eq!(lists(&stage), before);
}

/// The runtime's own time to SIGKILL begins with the release.
#[test]
fn sidecar_that_ignores_its_signal_is_killed_at_the_deadline() {
    let killed = ["i SIGKILL", "istio-proxy linger-killed"];
    let mut stage = Stage::lingering(requested());
    stage.pass(seconds(10));
    stage.exit("a", 0);
    stage.stop_released(false);
    stage.take();
    stage.pass(seconds(20));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), killed);
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [""; 0]);

    let mut stage = Stage::lingering(requested());
    stage.pass(seconds(2));
    stage.stop_reported(StopResult::Lost);
    stage.take();
    stage.pass(seconds(30));
    assert_eq!(stage.take(), killed);

    // A sidecar that exits in time is not killed.
    let mut stage = Stage::lingering(requested());
    stage.exit("a", 0);
    stage.stop_released(false);
    stage.exit("i", 0);
    stage.take();
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [""; 0]);
}

/// The preStop hook took the grace period, or the node's clock is ahead. The kubelet leaves 2 s after the signal, which the
/// runtime measures.
#[test]
fn sidecar_with_a_signal_at_the_end_of_the_grace_period_is_left_to_the_runtime() {
    let mut stage = armed(requested());
    stage.delete(30, 30);
    stage.list();
    stage.held_at(NOON);
    assert_eq!(stage.take(), [HELD, "stops []"]);
    stage.released_after(Duration::ZERO, false);
    stage.take();
    stage.pass(Duration::from_millis(1500));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [""; 0]);
}

/// The kubelet replied late, at the end of the grace period.
#[test]
fn late_signal_leaves_the_time_to_react() {
    let mut stage = armed(requested());
    stage.held_at(NOON);
    stage.now = stage.now + seconds(2);
    stage.delete(1, 0);
    stage.list();
    assert_eq!(stage.take(), [HELD, "stops []"]);
    stage.released_after(seconds(2), false);
    stage.take();
    stage.pass(Duration::from_millis(1900));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(Duration::from_millis(200));
    assert_eq!(stage.take(), ["i SIGKILL", "istio-proxy linger-killed"]);
}

/// The agent got no processor time for ten seconds, while the holder held the signal.
#[test]
fn delay_of_the_agent_does_not_delay_the_kill() {
    let mut stage = Stage::lingering(requested());
    stage.pass(seconds(13));
    stage.released_after(seconds(23), true);
    stage.take();
    // The rest of the grace period of 30 s, and the second for its rounding.
    stage.pass(Duration::from_millis(7900));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(Duration::from_millis(200));
    assert_eq!(stage.take(), ["i SIGKILL", "istio-proxy linger-killed"]);
}

/// The agent got no processor time for ten seconds before it received the report of the hold. The sidecar has a preStop hook.
#[test]
fn delay_of_the_agent_does_not_bring_the_kill_forward() {
    let mut stage = armed(requested());
    stage.delete(30, 0);
    stage.pass(seconds(10));
    stage.held_at(NOON + seconds(10));
    stage.list();
    stage.pass(seconds(3));
    stage.exit("a", 0);
    stage.released_after(seconds(13), false);
    stage.take();
    stage.pass(seconds(17));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["i SIGKILL", "istio-proxy linger-killed"]);
}

/// The node's clock is ahead of the API server's, or the kubelet noticed the deletion late. It gives the whole grace period
/// from then on.
#[test]
fn clocks_take_no_time_from_a_sidecar() {
    let mut stage = armed(requested());
    stage.delete(30, 20);
    stage.held_at(NOON);
    stage.list();
    stage.pass(seconds(5));
    stage.exit("a", 0);
    stage.stop_released(false);
    stage.take();
    stage.pass(seconds(25));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["i SIGKILL", "istio-proxy linger-killed"]);
}

#[test]
fn restarted_sidecar_is_not_killed() {
    let mut stage = armed(requested());
    stage.held_at(NOON);
    stage.list();
    stage.stop_released(false);
    stage.take();
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [""; 0]);
    // The pod is deleted after its holder ended: the stop signal was not delayed.
    stage.stop_reported(StopResult::Lost);
    stage.delete(30, 0);
    stage.list();
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [""; 0]);
}

/// The app ended just before, so that a request to the sidecar, which hangs, waits for its reply.
#[test]
fn outcome_of_the_kill_is_not_that_of_a_request() {
    let mut spec = requested();
    spec.containers[1].words = ["proxy", "sidecar"].map(str::to_owned).into();
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    stage.pass(seconds(1));
    stage.delete(30, 0);
    stage.held_at(NOON);
    stage.list();
    stage.pass(seconds(23));
    stage.released_after(seconds(23), true);
    stage.pass(seconds(7));
    stage.exit("a", 137);
    let request = "i POST :15000/quitquitquit";
    assert_eq!(
        stage.take(),
        [HELD, "stops []", RELEASED, "quit-on-deletion", request]
    );
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["i SIGKILL", "istio-proxy linger-killed"]);
    stage.outcome("i", Outcome::Signalled);
    stage.exit("i", 137);
    assert_eq!(stage.take(), [""; 0]);
}
