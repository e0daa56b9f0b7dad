//! The conclusions from the kubelet's lists, and their limits.

use std::time::Duration;

use super::stage::{PROXY, Stage, key, pod, status, uid};
use crate::{
    Event, NamespaceReply,
    base::id::PodUid,
    pod::{
        container_change::ContainerChange,
        restart_policy::RestartPolicy,
        spec::{RunState, Status},
    },
    quit::outcome::Outcome,
    settings::{annotation, config::Config, mode::Mode, overrides::NamespaceValues},
};

const STATUS: &str = "i POST :15020/quitquitquit";

fn never() -> Stage {
    Stage::new(Mode::Enforce, pod(RestartPolicy::Never, &["app"]))
}

#[test]
fn missing_exit_code_is_requested() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::OnFailure, &["app"]));
    stage.run_all();
    stage.send(Event::container(key("a"), ContainerChange::Exited));
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
fn what_ended_before_the_start_has_ended() {
    for (state, policy) in [
        (RunState::Terminated(0), RestartPolicy::OnFailure),
        (RunState::Terminated(3), RestartPolicy::Never),
        // The status is as old as the API server's watch, and the container has no cgroup any more.
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
fn unavailable_kubelet_does_not_affect_exits_reported_by_the_kernel() {
    let mut stage = never();
    stage.run_all();
    for _ in 0..20 {
        stage.send(Event::Timer);
        stage.lists_pods = false;
        stage.send(Event::PodsUnavailable);
        let wake = stage.engine.next_wake().unwrap();
        stage.now = stage.now.max(wake);
    }
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
}

/// A kubelet that has just started lists no pods until it has received them.
#[test]
fn a_list_without_a_living_pod_forgets_nothing() {
    let mut stage = never();
    stage.run_all();
    stage.answer_with(Vec::new());
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
    stage.outcome("i", Outcome::Accepted);
    assert_eq!(stage.take(), ["istio-proxy quit-accepted"]);
    stage.answer_with(Vec::new());
    stage.list();
    assert!(stage.take().is_empty(), "the quit is not requested twice");
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
}

#[test]
fn requests_about_a_foreign_pod_directory_are_bounded() {
    let mut stage = never();
    stage.send(Event::PodAppeared(uid()));
    let mut requests = 0;
    let end = stage.now + Duration::from_secs(250);
    loop {
        if stage.lists_pods {
            requests += 1;
            stage.answer_with(Vec::new());
        }
        let Some(wake) = stage.engine.next_wake().filter(|wake| *wake < end) else {
            break;
        };
        stage.now = wake.max(stage.now);
        stage.send(Event::Timer);
    }
    assert!((3..20).contains(&requests), "{requests}");
}

#[test]
fn list_requested_before_a_pod_appeared_is_not_evidence_about_it() {
    let mut stage = never();
    stage.pass(Duration::from_secs(10));
    stage.mode(Mode::Enforce);
    assert!(stage.lists_pods);
    let requested = stage.now;
    stage.now = stage.now + Duration::from_millis(3);
    stage.send(Event::PodAppeared(uid()));
    stage.lists_pods = false;
    stage.send(Event::Pods(Vec::new()));
    let next = stage.engine.next_wake().unwrap();
    assert_eq!(next.since(requested), Duration::from_millis(100));
}

/// Changed annotations of a Namespace also apply to its existing pods.
#[test]
fn later_opt_out_of_a_namespace_applies() {
    let mut stage = never();
    stage.run_all();
    let annotations = [(annotation::QUIT.to_owned(), "false".to_owned())].into();
    let values = NamespaceValues {
        annotations,
        ..NamespaceValues::default()
    };
    let name = "shop".to_owned();
    stage.send(Event::Namespace {
        name,
        reply: NamespaceReply::Read(values),
    });
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["skipped: OptedOut"]);
}

/// The kubelet's list may be older than the kernel's events.
#[test]
fn a_pod_that_is_not_listed_yet_is_not_forgotten() {
    let mut stage = never();
    stage.send(Event::PodAppeared(uid()));
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.answer_with(Vec::new());
    stage.list();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", STATUS]);
}

#[test]
fn namespace_is_requested_once_and_for_existing_pods() {
    let mut stage = never();
    stage.list();
    assert_eq!(stage.fetched, 0);
    stage.run_all();
    stage.list();
    stage.list();
    assert_eq!(stage.fetched, 1);
}

/// A list that another pod caused shows it before it has a cgroup.
#[test]
fn namespace_is_requested_again_for_a_new_pod() {
    let mut stage = never();
    stage.run_all();
    stage.pass(Duration::from_secs(31));
    let mut second = stage.spec.clone();
    second.uid = PodUid::parse(&"7".repeat(32)).unwrap();
    let uid = second.uid.clone();
    stage.answer_with(vec![stage.spec.clone(), second]);
    assert_eq!(stage.fetched, 1);
    stage.send(Event::PodAppeared(uid));
    assert_eq!(stage.fetched, 2);
}

/// The last list lacks what a new recipe reads.
#[test]
fn recipe_that_reads_more_applies_from_the_next_list_on() {
    let text = "recipes: [{name: own, recognize: [{name: [tool]}], quit: [\
        {post: {port: {default: 1, annotations: [shop.example/port]}, path: /quit}, code: 0}]}]";
    let config = Config::parse("test", text).unwrap();
    let spec = pod(RestartPolicy::Never, &["app", "tool"]);
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), [""; 0], "tool counts as an app");
    stage.configure(config);
    assert_eq!(stage.take(), [""; 0]);
    let port = ("shop.example/port".to_owned(), "77".to_owned());
    stage.spec.annotations.extend([port]);
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.take()[..2], ["pod-finished", "t POST :77/quit"]);
}

/// The kubelet lists pods before they have cgroups, and some never get any.
#[test]
fn a_pod_that_was_only_ever_listed_is_forgotten_with_the_list() {
    let mut stage = never();
    stage.list();
    assert_eq!(stage.engine.pods.len(), 1);
    stage.answer_with(Vec::new());
    assert_eq!(stage.engine.pods.len(), 0);
}

/// The first list is older than the start by as much as the kubelet's watch lags behind.
#[test]
fn the_first_lists_may_be_old_and_more_follow() {
    let mut stage = never();
    let start = stage.now;
    let mut lists = Vec::new();
    while let Some(wake) = stage.engine.next_wake() {
        if wake.since(start) > Duration::from_secs(60) {
            break;
        }
        stage.now = wake;
        stage.send(Event::Timer);
        if stage.lists_pods {
            lists.push(stage.now.since(start).as_millis());
            stage.answer_with(Vec::new());
        }
    }
    assert_eq!(lists, [99, 699, 2499]);
}
