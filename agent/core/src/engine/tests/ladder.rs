//! The escalation ladder of a sidecar, as events.

mod ports;

use std::time::Duration;

use super::{
    hold::{held, ready},
    stage::{PROXY, Stage, key, pod, uid},
};
use crate::{
    engine::{action::Action, event::Event},
    hold::Probe,
    pod::restart_policy::RestartPolicy,
    quit::outcome::Outcome,
    recipe::tests::field::pod_of,
    settings::mode::Mode,
};

const STATUS: &str = "i POST :15020/quitquitquit";
const ADMIN: &str = "i POST :15000/quitquitquit";
const NEXT: [&str; 2] = [
    "istio-proxy step-failed, next POST :15000/quitquitquit",
    ADMIN,
];

fn never() -> Stage {
    Stage::new(Mode::Enforce, pod(RestartPolicy::Never, &["app"]))
}

#[test]
fn last_step_is_followed_by_a_report() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    stage.outcome("i", Outcome::Rejected(404));
    let expected = [
        "pod-finished",
        STATUS,
        "istio-proxy step-failed, next POST :15000/quitquitquit",
        ADMIN,
    ];
    assert_eq!(stage.take(), expected);
    stage.outcome("i", Outcome::Accepted);
    stage.pass(Duration::from_secs(5));
    let expected = [
        "istio-proxy quit-accepted",
        "istio-proxy step-failed, next SIGTERM",
        "i SIGTERM",
    ];
    assert_eq!(stage.take(), expected);
    stage.outcome("i", Outcome::Signalled);
    let expected = [
        "istio-proxy quit-accepted",
        "istio-proxy step-failed, next nothing",
        "istio-proxy gave-up: StillRuns",
    ];
    assert_eq!(stage.engine.census().gave_up, 0);
    stage.pass(Duration::from_secs(600));
    assert_eq!(stage.take(), expected);
    assert_eq!(stage.engine.census().gave_up, 1);
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
    assert_eq!(stage.engine.census().gave_up, 0);
}

/// The reported latency counts from the exit of the app.
#[test]
fn a_reply_is_reported_with_the_time_since_the_exit() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    let took = Duration::from_millis(7);
    let answer = Event::Attempted {
        key: key("i"),
        outcome: Outcome::Accepted,
    };
    let actions = stage.engine.step(stage.now + took, answer);
    let [Action::Report(decision)] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(decision.kind.into_str(), "quit-accepted");
    assert_eq!(decision.since_exit, Some(took));
}

/// An idle node has no timers.
#[test]
fn nothing_is_due_for_a_sidecar_that_has_ended() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    stage.outcome("i", Outcome::Accepted);
    stage.pass(Duration::from_secs(1));
    let next = stage.now + Duration::from_secs(1);
    assert_eq!(stage.engine.next_wake(), Some(next));
    stage.exit("i", 0);
    stage.pass(Duration::from_millis(900));
    assert_ne!(stage.engine.next_wake(), Some(next));
}

/// The proxy received its first request and sent no reply.
fn unanswered() -> Stage {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    stage.outcome("i", Outcome::NoReply);
    let expected = ["pod-finished", STATUS, "istio-proxy quit-accepted"];
    assert_eq!(stage.take(), expected);
    stage
}

/// A sidecar that quits may close the connection before it replies. So does a handler that fails, and then the sidecar
/// does not quit.
#[test]
fn a_request_without_a_reply_is_made_again() {
    let mut stage = unanswered();
    stage.pass(Duration::from_millis(99));
    assert!(stage.take().is_empty());
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.take(), [STATUS]);
    stage.outcome("i", Outcome::NoReply);
    stage.pass(Duration::from_millis(200));
    assert_eq!(stage.take(), [STATUS]);
    stage.outcome("i", Outcome::Accepted);
    assert!(stage.take().is_empty(), "reported once");
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
}

/// An accepted request has the whole time of its step, also after a request without a reply.
#[test]
fn a_repeated_request_that_is_accepted_has_its_whole_time() {
    let mut stage = unanswered();
    stage.pass(Duration::from_millis(100));
    assert_eq!(stage.take(), [STATUS]);
    stage.outcome("i", Outcome::Accepted);
    stage.pass(Duration::from_millis(1_990));
    assert!(stage.take().is_empty());
    stage.pass(Duration::from_millis(10));
    assert_eq!(stage.take(), NEXT);
}

/// Repeated requests do not extend the time of the step.
#[test]
fn without_any_reply_the_next_step_is_not_later() {
    let mut stage = unanswered();
    let mut again = 0;
    for _tick in 0..190 {
        stage.pass(Duration::from_millis(10));
        if stage.take() == [STATUS] {
            again += 1;
            stage.outcome("i", Outcome::NoReply);
            assert!(stage.take().is_empty(), "reported once");
        }
    }
    assert_eq!(again, 4, "100, 300, 700 and 1,500 ms after the first");
    stage.pass(Duration::from_millis(100));
    assert_eq!(stage.take(), NEXT);
}

/// The sidecar closed its port because it received the first request.
#[test]
fn a_refused_connection_after_a_request_without_a_reply() {
    for outcome in [Outcome::Refused, Outcome::TimedOut, Outcome::Rejected(500)] {
        let mut stage = unanswered();
        stage.pass(Duration::from_millis(100));
        assert_eq!(stage.take(), [STATUS]);
        stage.outcome("i", outcome);
        stage.pass(Duration::from_millis(1_800));
        assert!(stage.take().is_empty());
        stage.pass(Duration::from_millis(100));
        assert_eq!(stage.take(), NEXT);
    }
}

#[test]
fn refused_connections_are_retried_a_bounded_time() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    let mut attempts = 0;
    loop {
        stage.outcome("i", Outcome::Refused);
        stage.pass(Duration::from_millis(250));
        let done = stage.take();
        if done.iter().any(|done| done.contains("step-failed")) {
            break;
        }
        attempts += 1;
        assert!(attempts < 100);
    }
    assert!(attempts > 10);
}

#[test]
fn restarting_sidecar_is_quit_a_bounded_number_of_times() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    let mut quits = 0;
    let mut reports = Vec::new();
    for run in ["i", "j", "k", "l", "m"] {
        if run != "i" {
            stage.start(PROXY, run);
        }
        stage.pass(Duration::from_secs(10));
        stage.outcome(run, Outcome::Accepted);
        stage.exit(run, 1);
        let done = stage.take();
        quits += done
            .iter()
            .filter(|done| done.contains("POST :15020"))
            .count();
        reports.extend(done.into_iter().filter(|done| done.contains("gave-up")));
    }
    assert_eq!(quits, 3);
    assert_eq!(reports, ["istio-proxy gave-up: ComesBack"]);
}

#[test]
fn requests_are_prepared_once_and_only_when_they_will_be_sent() {
    let mut stage = never();
    stage.run_all();
    stage.list();
    assert_eq!(stage.prepared, [key("i")]);
    for (mode, host_network) in [(Mode::Observe, false), (Mode::Enforce, true)] {
        let mut stage = Stage::new(mode, pod(RestartPolicy::Never, &["app"]));
        stage.spec.host_network = host_network;
        stage.run_all();
        assert!(stage.prepared.is_empty(), "{mode} {host_network}");
    }
}

/// The mode changes to observe after the quit request. The sidecar still ended as requested.

#[test]
fn sidecar_requested_before_observe_mode_ended_as_requested() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    stage.outcome("i", Outcome::Accepted);
    stage.take();
    stage.mode(Mode::Observe);
    stage.take();
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
}
