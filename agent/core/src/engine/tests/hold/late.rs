//! Apps that started while the CNI plugin waited for its reply: it has given up by then. Their connections are not held.

use super::super::hold::*;
use crate::base::id::{ContainerId, ContainerKey};
use crate::pod::container_change::ContainerChange;

const LATE: [&str; 3] = [
    "answer NotHeld: the pod's apps had started before their connections could be held",
    "not-held: the pod's apps had started before their connections could be held",
    "forget",
];

/// The API server does not respond for longer than the plugin waits.
#[test]
fn app_that_started_before_its_namespace_was_read_is_not_held() {
    let rows = [("app", &LATE[..]), (PROXY, &[ARM])];
    for (container, expected) in rows {
        let mut stage = bare(Mode::Enforce, istio());
        stage.is_namespace_pending = true;
        stage.send(Event::PodAppeared(uid()));
        stage.list();
        stage.announce();
        stage.start(container, "c");
        assert_eq!(stage.take_hold(), [""; 0]);
        stage.read_namespace("shop".to_owned());
        assert_eq!(stage.take_hold(), expected, "{container}");
    }
}

/// The runtime reports no UID, and the kubelet's list is slow.
#[test]
fn app_that_started_before_its_pod_was_listed_is_not_held() {
    for has_pause in [true, false] {
        let mut stage = bare(Mode::Enforce, istio());
        stage.send(Event::PodAppeared(uid()));
        stage.announce_as(None);
        if has_pause {
            stage.send(Event::container(pause(), ContainerChange::Appeared));
        }
        stage.start("app", "a");
        stage.take_hold();
        stage.list();
        assert_eq!(stage.take_hold(), LATE, "{has_pause}");
    }
}

#[test]
fn app_that_started_before_its_late_announcement_is_not_held() {
    let mut stage = held(Mode::Enforce, istio());
    stage.send(Event::container(pause(), ContainerChange::Appeared));
    stage.start("app", "a");
    stage.take_hold();
    stage.announce();
    assert_eq!(stage.take_hold(), LATE);
    // Its proxy has started, and no app.
    let mut stage = held(Mode::Enforce, istio());
    stage.send(Event::container(pause(), ContainerChange::Appeared));
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.announce();
    stage.armed();
    assert_eq!(stage.take_hold(), [ARM, "answer Held", ARMED, WATCH]);
}

/// The worker has no CPU time, or is being replaced.
#[test]
fn app_that_started_before_its_table_was_installed_is_released() {
    for again in ["false", "true"] {
        let mut spec = pod(RestartPolicy::Always, &["app"]);
        let again = ("usher.dev/hold-again".to_owned(), again.to_owned());
        spec.annotations.extend([again]);
        let mut stage = held(Mode::Enforce, spec.clone());
        stage.announce();
        assert_eq!(stage.take_hold(), [ARM]);
        stage.start("app", "a");
        stage.armed();
        assert_eq!(stage.take_hold(), [LATE[0], LATE[1], "release all"]);
        stage.released(0);
        if spec.annotations["usher.dev/hold-again"] == "false" {
            assert_eq!(stage.take_hold(), ["forget"]);
            continue;
        }
        assert_eq!(stage.take_hold(), [""; 0]);
        stage.start(PROXY, "i");
        stage.exit("i", 1);
        assert_eq!(stage.take_hold(), [ARM]);
        stage.armed();
        assert_eq!(stage.take_hold(), [ARMED]);
    }
}

/// The plugin has its reply: the pod's init containers run first.
#[test]
fn app_that_starts_after_the_reply_is_held() {
    let mut spec = istio();
    spec.init_containers = vec!["migrate".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    stage.start("migrate", "m");
    stage.exit("m", 0);
    stage.start("app", "a");
    stage.take_hold();
    stage.armed();
    assert_eq!(stage.take_hold(), [ARMED]);
}

/// The agent opened the namespace before the plugin announced it.
#[test]
fn late_announcement_of_a_sandbox_that_is_held_changes_nothing() {
    let mut stage = held(Mode::Enforce, istio());
    found::find(&mut stage, &found::pause(), None);
    stage.armed();
    stage.start("app", "a");
    stage.take_hold();
    stage.announce();
    assert_eq!(stage.take_hold(), ["answer Held"]);
}

/// The process of the announced sandbox.
fn pause() -> ContainerKey {
    ContainerKey {
        pod: uid(),
        id: ContainerId::parse(sandbox().as_str()).unwrap(),
    }
}

#[test]
fn the_deadline_also_counts_for_an_app_that_started_before_the_table_of_a_found_sandbox() {
    let mut stage = held(Mode::Enforce, istio());
    stage.send(Event::container(pause(), ContainerChange::Appeared));
    found::find(&mut stage, &found::pause(), None);
    stage.start("app", "a");
    stage.armed();
    stage.take_hold();
    stage.pass(seconds(31));
    assert_eq!(stage.take_hold(), ["release all"]);
}
