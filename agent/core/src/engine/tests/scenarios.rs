//! The main scenarios, as events.

use std::time::Duration;

use super::stage::{PROXY, Stage, key, pod, status, uid};
use crate::{
    Event,
    pod::{
        container_change::ContainerChange,
        restart_policy::{RestartPolicy, RestartRule},
        spec::RunState,
    },
    quit::outcome::Outcome,
    settings::{annotation, mode::Mode},
};

const STATUS: &str = "i POST :15020/quitquitquit";

fn never() -> Stage {
    Stage::new(Mode::Enforce, pod(RestartPolicy::Never, &["app"]))
}

#[test]
fn the_sidecars_of_a_finished_pod_are_terminated() {
    let mut stage = never();
    stage.run_all();
    let counted = |stage: &Stage| {
        let census = stage.engine.census();
        (census.seen, census.finished)
    };
    assert_eq!(counted(&stage), (1, 0));
    stage.exit("a", 0);
    assert_eq!(counted(&stage), (1, 1));
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
    stage.outcome("i", Outcome::Accepted);
    stage.exit("i", 0);
    let end = [
        "istio-proxy quit-accepted",
        "istio-proxy sidecar-ended as requested",
    ];
    assert_eq!(stage.take(), end);
    stage.send(Event::container(key("a"), ContainerChange::Gone));
    stage.send(Event::container(key("i"), ContainerChange::Gone));
    stage.send(Event::PodGone(uid()));
    stage.pass(Duration::from_secs(600));
    assert!(stage.take().is_empty());
}

#[test]
fn sidecar_exit_may_precede_the_reply() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 3);
    stage.take();
    stage.exit("i", 0);
    assert!(stage.take().is_empty());
    stage.outcome("i", Outcome::NoReply);
    let end = [
        "istio-proxy quit-accepted",
        "istio-proxy sidecar-ended as requested",
    ];
    assert_eq!(stage.take(), end);
}

#[test]
fn observe_reports_the_actions_of_enforce() {
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
fn on_failure_waits_for_the_last_restart() {
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
fn pod_with_restart_policy_always_never_finishes() {
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
    // The proxy does not listen yet.
    stage.outcome("i", Outcome::Refused);
    stage.pass(Duration::from_millis(5));
    assert_eq!(stage.take(), [STATUS]);
}

#[test]
fn app_that_exits_before_it_is_named() {
    let mut stage = never();
    stage.pass(Duration::from_secs(10));
    stage.send(Event::PodAppeared(uid()));
    stage.list();
    stage.appear("a");
    stage.send(Event::container(key("a"), ContainerChange::Gone));
    stage.start(PROXY, "i");
    stage.pass(Duration::from_millis(500));
    assert!(stage.take().is_empty());
    status(&mut stage.spec, "app", "a", RunState::Terminated(0));
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.take()[..2], ["pod-finished", STATUS]);
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
    assert_eq!(stage.take(), ["skipped: OptedOut"]);

    let mut stage = never();
    stage.spec.deleting = true;
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["skipped: Deleting"]);

    let mut stage = never();
    stage.spec.annotations.insert(key, "no".to_owned());
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["invalid-annotation", "pod-finished", STATUS]);
}

/// `usher.dev/mode: enforce` and `usher.dev/quit: off` on the Node.
#[test]
fn invalid_annotations_of_other_capabilities_are_reported() {
    let mut stage = never();
    let key = "usher.dev/linger".to_owned();
    stage.spec.annotations.insert(key, "maybe".to_owned());
    stage.hold_mode = Mode::Enforce;
    stage.mode(Mode::Off);
    stage.run_all();
    assert_eq!(stage.take(), ["invalid-annotation"]);
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
    assert_eq!(stage.engine.census().seen, 0);
}

/// The sidecar became an app, by annotation, while the request was in flight.
#[test]
fn a_pod_is_forgotten_whose_sidecar_has_another_role() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    let sidecars = (
        "usher.dev/sidecars".to_owned(),
        "istio-proxy=app".to_owned(),
    );
    stage.spec.annotations.extend([sidecars]);
    stage.list();
    stage.outcome("i", Outcome::Accepted);
    stage.exit("i", 0);
    stage.send(Event::PodGone(uid()));
    assert_eq!(stage.engine.census().seen, 0);
}

/// The query would reach a process of the node.
#[test]
fn no_version_is_queried_on_the_host_network() {
    for (host_network, asked) in [(false, 1), (true, 0)] {
        let mut spec = pod(RestartPolicy::Never, &["app"]);
        spec.containers[1].image = "istio/proxyv2:latest".to_owned();
        spec.host_network = host_network;
        let mut stage = Stage::new(Mode::Enforce, spec);
        stage.run_all();
        stage.pass(Duration::from_secs(1));
        assert_eq!(stage.version_queries.len(), asked, "{host_network}");
    }
}

/// A sidecar that exits during its version query never replies. The agent queries its next run.
#[test]
fn version_is_queried_again_after_a_restart() {
    let mut spec = pod(RestartPolicy::OnFailure, &["app"]);
    spec.containers[1].image = "istio/proxyv2:latest".to_owned();
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.version_queries, [key("i")]);
    stage.exit("i", 1);
    stage.start(PROXY, "j");
    let no_answer = Event::VersionAnswered {
        key: key("i"),
        version: None,
    };
    stage.send(no_answer);
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.version_queries, [key("i"), key("j")]);
}
