//! The escalation ladder of a sidecar, as events.

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
    stage.pass(Duration::from_secs(600));
    let expected = [
        "istio-proxy quit-accepted",
        "istio-proxy step-failed, next nothing",
        "istio-proxy gave-up: StillRuns",
    ];
    assert_eq!(stage.take(), expected);
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
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
    assert_eq!(decision.kind.as_str(), "quit-accepted");
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

/// An Istio 1.24 whose Envoy has no admin port: the status port listens already, and the first port never opens.
#[test]
fn a_port_that_never_opens_does_not_delay_a_step_whose_port_listens() {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    spec.containers[1].image = "istio/proxyv2:1.24.3".to_owned();
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", ADMIN]);
    let begin = stage.now;
    let mut attempts = vec![ADMIN.to_owned()];
    while attempts.last().is_some_and(|last| last == ADMIN) {
        stage.outcome("i", Outcome::Refused);
        stage.pass(Duration::from_millis(250));
        attempts = stage.take();
    }
    assert_eq!(attempts, [STATUS]);
    let waited = stage.now.since(begin);
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    stage.outcome("i", Outcome::Accepted);
    assert_eq!(stage.take(), ["istio-proxy quit-accepted"]);
    // The proxy drains.
    stage.pass(Duration::from_secs(5));
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
}

/// The first port never opens, and a request after the signal has a port that listens: the signal comes first.
#[test]
fn request_behind_a_signal_is_not_tried_before_it() {
    let text = "recipes: [{name: istio, recognise: [{name: [istio-proxy]}], quit: [\
        {post: {port: 15020, path: /quit}}, {signal: SIGTERM}, {post: {port: 15000, path: /quit}}]}]";
    let config = crate::settings::config::Config::parse("test", text).unwrap();
    let mut stage = never();
    stage.send(Event::Configured(std::sync::Arc::new(config)));
    stage.run_all();
    stage.exit("a", 0);
    let mut attempts = stage.take();
    for _ in 0..100 {
        if let Some(last) = attempts.last().filter(|last| last.starts_with("i ")) {
            assert!(!last.contains(":15000"), "{attempts:?}");
            stage.outcome("i", Outcome::Refused);
        }
        if attempts.iter().any(|line| line == "i SIGTERM") {
            return;
        }
        stage.pass(Duration::from_millis(250));
        attempts.extend(stage.take());
    }
    panic!("{attempts:?}");
}

/// A sidecar that does not listen yet. The requests alternate between both ports until one of them opens.
#[test]
fn ports_that_do_not_listen_yet_are_tried_in_turn() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    let mut attempts = stage.take();
    for _ in 0..12 {
        stage.outcome("i", Outcome::Refused);
        stage.pass(Duration::from_millis(250));
        attempts.extend(stage.take());
    }
    let last = &attempts[attempts.len() - 4..];
    assert!(last == [STATUS, ADMIN, STATUS, ADMIN] || last == [ADMIN, STATUS, ADMIN, STATUS]);
    let failed = |line: &String| line.contains("step-failed");
    assert!(!attempts.iter().any(failed), "{attempts:?}");
}

/// No port of the ladder has a listener. A sidecar that listens on another of its ports has started, so SIGTERM follows
/// at once. A sidecar without a listener may still be starting, so SIGTERM follows after the 5 s that the signal may
/// take.
#[test]
fn signal_is_not_delayed_by_ports_that_never_open() {
    let outbound = || Probe::Listens { port: 15001 };
    let other = || Probe::Listens { port: 3500 };
    // The successful probes, the time from the last one to the exit of the app, and the wait for the signal.
    let cases = [
        (
            "it listens on its outbound port",
            vec![outbound()],
            2_000,
            0..=500,
        ),
        ("it is ready", vec![outbound(), ready()], 2_000, 0..=500),
        ("it was ready long ago", vec![ready()], 9_000, 0..=500),
        (
            "it opened its first port just now",
            vec![outbound()],
            0,
            1_000..=2_000,
        ),
        ("nothing of it listens", vec![], 2_000, 5_000..=6_500),
        (
            "a port of something else listens",
            vec![other()],
            2_000,
            5_000..=6_500,
        ),
        (
            "nothing of it listens, and it is not young",
            vec![],
            8_000,
            2_000..=3_000,
        ),
    ];
    for (case, probes, before_ms, expected_ms) in cases {
        let mut stage = held(Mode::Enforce, pod(RestartPolicy::Never, &["app"]));
        stage.mode(Mode::Enforce);
        stage.announce();
        stage.armed();
        stage.start("app", "a");
        stage.start(PROXY, "i");
        stage.list();
        for probe in probes {
            stage.probed(probe);
        }
        stage.pass(Duration::from_millis(before_ms));
        stage.take();
        stage.exit("a", 0);
        let begin = stage.now;
        let mut done = stage.take();
        while !done.iter().any(|line| line == "i SIGTERM") {
            stage.outcome("i", Outcome::Refused);
            stage.pass(Duration::from_millis(50));
            done = stage.take();
            assert!(stage.now.since(begin) < Duration::from_secs(20), "{case}");
        }
        let waited = stage.now.since(begin).as_millis();
        assert!(expected_ms.contains(&waited), "{case}: {waited} ms");
    }
}

/// The wait for a port that may never open lasts as long as SIGTERM would take to end the sidecar (5 s for Dapr, 120 s
/// for Linkerd), and ends 10 s after its start. A process that a shell may still start receives no signal.
#[test]
fn ports_of_a_starting_sidecar_are_awaited_no_longer_than_its_signal_takes() {
    let cases = [
        ("Dapr by a mirror, with moved ports", 5_000..=6_500),
        ("Linkerd from a registry with one repository", 8_000..=9_500),
        (
            "Vault agent with a cache and its quit endpoint",
            8_000..=9_500,
        ),
    ];
    for (case, expected_ms) in cases {
        let mut stage = Stage::new(Mode::Enforce, pod_of(case));
        stage.send(Event::PodAppeared(uid()));
        for (number, container) in stage.spec.containers.clone().into_iter().enumerate() {
            stage.start(&container.name, &format!("r{number}"));
        }
        stage.list();
        stage.pass(Duration::from_secs(1));
        stage.exit("r0", 0);
        let begin = stage.now;
        let mut done = stage.take();
        while !done.iter().any(|line| line.starts_with("r1 SIGTERM")) {
            stage.outcome("r1", Outcome::Refused);
            stage.pass(Duration::from_millis(50));
            done = stage.take();
            assert!(stage.now.since(begin) < Duration::from_secs(20), "{case}");
        }
        let waited = stage.now.since(begin).as_millis();
        assert!(expected_ms.contains(&waited), "{case}: {waited} ms");
    }
}
