use std::time::Duration;

use super::stage::{PROXY, Stage, key, pod, status, uid};
use crate::{
    Event, annotation,
    event::Outcome,
    mode::Mode,
    pod::{RunState, Status},
    policy::{RestartPolicy, RestartRule},
};

const STATUS: &str = "i POST :15020/quitquitquit";
const ADMIN: &str = "i POST :15000/quitquitquit";

fn never() -> Stage {
    Stage::new(Mode::Enforce, pod(RestartPolicy::Never, &["app"]))
}

#[test]
fn a_finished_pod_is_shown_out() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
    stage.outcome("i", Outcome::Accepted);
    stage.exit("i", 0);
    let end = [
        "istio-proxy quit-accepted",
        "istio-proxy sidecar-ended as asked",
    ];
    assert_eq!(stage.take(), end);
    stage.send(Event::ContainerGone(key("a")));
    stage.send(Event::ContainerGone(key("i")));
    stage.send(Event::PodGone(uid()));
    stage.pass(Duration::from_secs(600));
    assert!(stage.take().is_empty());
}

#[test]
fn the_end_may_overtake_the_answer() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 3);
    stage.take();
    stage.exit("i", 0);
    assert!(stage.take().is_empty());
    stage.outcome("i", Outcome::NoReply);
    let end = [
        "istio-proxy quit-accepted",
        "istio-proxy sidecar-ended as asked",
    ];
    assert_eq!(stage.take(), end);
}

#[test]
fn observe_says_what_enforce_does() {
    let mut stage = Stage::new(Mode::Observe, pod(RestartPolicy::Never, &["app"]));
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", "istio-proxy would-quit"]);
    stage.pass(Duration::from_secs(60));
    assert!(stage.take().is_empty());
    stage.mode(Mode::Enforce);
    assert_eq!(stage.take(), [STATUS]);
    stage.mode(Mode::Off);
    stage.pass(Duration::from_secs(60));
    assert!(stage.take().is_empty());
}

#[test]
fn on_failure_lives_through_restarts() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::OnFailure, &["app"]));
    stage.run_all();
    stage.exit("a", 1);
    stage.start("app", "b");
    stage.exit("b", 137);
    stage.start("app", "c");
    stage.pass(Duration::from_secs(60));
    assert!(stage.take().is_empty());
    stage.exit("c", 0);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
}

#[test]
fn a_missing_code_is_asked_for() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::OnFailure, &["app"]));
    stage.run_all();
    stage.send(Event::ContainerExited(key("a")));
    stage.pass(Duration::from_secs(3));
    assert!(
        stage.take().is_empty(),
        "the status still says that it runs"
    );
    status(&mut stage.spec, "app", "a", RunState::Terminated(0));
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.take()[..2], ["pod-finished", STATUS]);
}

#[test]
fn always_is_never_finished() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::Always, &["app"]));
    stage.run_all();
    stage.exit("a", 0);
    stage.pass(Duration::from_secs(60));
    assert!(stage.take().is_empty());
}

#[test]
fn rules_decide_before_the_policy() {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    spec.containers[0].restart_rules = vec![RestartRule {
        codes: vec![42],
        within: true,
        whole_pod: false,
    }];
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    stage.exit("a", 42);
    stage.start("app", "b");
    assert!(stage.take().is_empty());
    stage.exit("b", 1);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
}

#[test]
fn the_last_of_two_apps_decides() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::Never, &["app", "batch"]));
    stage.run_all();
    stage.exit("b", 1);
    assert!(stage.take().is_empty());
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
}

#[test]
fn the_app_may_end_before_the_sidecar_exists() {
    let mut stage = never();
    stage.send(Event::PodAppeared(uid()));
    stage.list();
    stage.start("app", "a");
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished"]);
    stage.start(PROXY, "i");
    assert_eq!(stage.take(), [STATUS]);
    // It does not listen yet.
    stage.outcome("i", Outcome::Refused);
    stage.pass(Duration::from_millis(5));
    assert_eq!(stage.take(), [STATUS]);
}

#[test]
fn a_life_too_short_for_a_name() {
    let mut stage = never();
    stage.pass(Duration::from_secs(10));
    stage.send(Event::PodAppeared(uid()));
    stage.list();
    stage.appear("a");
    stage.send(Event::ContainerGone(key("a")));
    stage.start(PROXY, "i");
    stage.pass(Duration::from_millis(500));
    assert!(stage.take().is_empty());
    status(&mut stage.spec, "app", "a", RunState::Terminated(0));
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.take()[..2], ["pod-finished", STATUS]);
}

#[test]
fn what_ended_before_the_start_has_ended() {
    for (state, policy) in [
        (RunState::Terminated(0), RestartPolicy::OnFailure),
        (RunState::Terminated(3), RestartPolicy::Never),
        // As old as the API server's watch; the kernel shows no such container.
        (RunState::Running, RestartPolicy::Never),
    ] {
        let mut spec = pod(policy, &["app"]);
        status(&mut spec, "app", "a", state);
        let mut stage = Stage::new(Mode::Enforce, spec);
        stage.send(Event::PodAppeared(uid()));
        stage.start(PROXY, "i");
        stage.list();
        assert_eq!(
            stage.take(),
            ["pod-finished", STATUS],
            "{state:?} {policy:?}"
        );
    }
}

#[test]
fn what_waits_to_start_has_not_ended() {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    spec.containers[0].status = Some(Status {
        id: None,
        state: RunState::Waiting,
        last: None,
    });
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.send(Event::PodAppeared(uid()));
    stage.start(PROXY, "i");
    stage.list();
    stage.pass(Duration::from_secs(600));
    assert!(stage.take().is_empty());
}

#[test]
fn left_alone() {
    let mut stage = never();
    let key = annotation::QUIT.to_owned();
    stage
        .spec
        .annotations
        .insert(key.clone(), "false".to_owned());
    stage.run_all();
    stage.exit("a", 0);
    stage.pass(Duration::from_secs(60));
    assert_eq!(stage.take(), ["left-alone: OptedOut"]);

    let mut stage = never();
    stage.spec.deleting = true;
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["left-alone: Deleting"]);

    let mut stage = never();
    stage.spec.annotations.insert(key, "no".to_owned());
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["bad-annotation", "pod-finished", STATUS]);
}

#[test]
fn the_ladder_ends_with_a_report() {
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
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as asked"]);
}

#[test]
fn refusals_are_not_for_ever() {
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
    assert!(attempts > 20);
}

#[test]
fn a_sidecar_that_comes_back_is_not_fought() {
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
fn a_pod_that_disappears_is_forgotten() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    stage.take();
    stage.send(Event::PodGone(uid()));
    stage.outcome("i", Outcome::Failed("gone".to_owned()));
    stage.pass(Duration::from_secs(600));
    assert!(stage.take().is_empty());
    assert_eq!(stage.engine.census().pods, 0);
}

#[test]
fn the_kubelet_away_changes_nothing_that_the_kernel_can_tell() {
    let mut stage = never();
    stage.run_all();
    for _ in 0..20 {
        stage.send(Event::Timer);
        stage.asked = false;
        stage.send(Event::PodsUnavailable);
        let wake = stage.engine.next_wake().unwrap();
        stage.now = stage.now.max(wake);
    }
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
}

#[test]
fn a_foreign_pod_directory_is_not_asked_about_for_ever() {
    let mut stage = never();
    stage.send(Event::PodAppeared(uid()));
    let mut asked = 0;
    let end = stage.now + Duration::from_secs(250);
    loop {
        if stage.asked {
            asked += 1;
            stage.answer_with(Vec::new());
        }
        let Some(wake) = stage.engine.next_wake().filter(|wake| *wake < end) else {
            break;
        };
        stage.now = wake.max(stage.now);
        stage.send(Event::Timer);
    }
    assert!((3..20).contains(&asked), "{asked}");
}

#[test]
fn a_list_on_its_way_says_nothing_of_a_pod_that_came_after() {
    let mut stage = never();
    stage.pass(Duration::from_secs(10));
    stage.mode(Mode::Enforce);
    assert!(stage.asked);
    let asked = stage.now;
    stage.now = stage.now + Duration::from_millis(3);
    stage.send(Event::PodAppeared(uid()));
    stage.asked = false;
    stage.send(Event::Pods(Vec::new()));
    let next = stage.engine.next_wake().unwrap();
    assert_eq!(next.since(asked), Duration::from_millis(100));
}

#[test]
fn requests_are_prepared_once_and_where_they_will_be_made() {
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
