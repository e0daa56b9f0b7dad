//! Stop signals of apps that wait for their pre-stop time.

mod auto;
mod deadline;

use std::time::Duration;

use super::{
    linger::{NOON, seconds, stage},
    stage::*,
};
use crate::{
    Event,
    linger::StopResult,
    pod::{restart_policy::RestartPolicy, spec::Pod},
    settings::mode::Mode,
};

const ARMED: &str = "stops [app 10s]";

fn annotated(mut spec: Pod, key: &str, value: &str) -> Pod {
    spec.annotations.insert(key.to_owned(), value.to_owned());
    spec
}

fn requested() -> Pod {
    let spec = pod(RestartPolicy::Always, &["app"]);
    annotated(spec, "usher.dev/pre-stop", "10s")
}

fn armed(spec: Pod) -> Stage {
    let mut stage = stage(Mode::Enforce, spec);
    assert_eq!(stage.take(), [ARMED]);
    stage
}

impl Stage {
    fn app_stop(&mut self, result: StopResult) {
        let name = "app".to_owned();
        let key = key("a");
        self.send(Event::Stop { key, name, result });
    }

    fn app_held(spec: Pod, grace: u64) -> Self {
        let mut stage = armed(spec);
        stage.delete(grace, 0);
        stage.app_stop(StopResult::Held { at: NOON });
        assert!(stage.lists_pods);
        stage.list();
        stage
    }

    /// The holder reports the release.
    fn app_released(&mut self, at_limit: bool) -> String {
        self.app_released_after(seconds(10), at_limit)
    }

    fn app_released_after(&mut self, held: Duration, at_limit: bool) -> String {
        self.log.clear();
        self.app_stop(StopResult::Released { held, at_limit });
        self.log.join("\n")
    }
}

#[test]
fn app_receives_its_signal_after_the_time() {
    let mut stage = Stage::app_held(requested(), 30);
    assert_eq!(stage.take(), ["app pre-stop-held"]);
    // The holder applies the limit.
    stage.pass(seconds(10));
    assert_eq!(stage.take(), [""; 0]);
    assert_eq!(
        stage.app_released(true),
        "app pre-stop-released: its pre-stop time has passed; its stop signal was held for 10.0 s"
    );
    stage.exit("a", 0);
    stage.take();
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [""; 0]);
}

#[test]
fn pod_without_a_sidecar_and_one_that_did_not_request_it() {
    let mut bare = requested();
    bare.containers.retain(|one| one.name == "app");
    assert_eq!(stage(Mode::Enforce, bare.clone()).take(), [ARMED]);
    assert_eq!(stage(Mode::Off, bare.clone()).take(), [""; 0]);
    let observed = stage(Mode::Observe, bare.clone()).take();
    assert_eq!(observed, ["stops [app observed]"]);
    let opted_out = annotated(bare, "usher.dev/pre-stop", "false");
    assert_eq!(stage(Mode::Enforce, opted_out).take(), [""; 0]);
}

#[test]
fn restart_of_the_app_is_not_delayed() {
    let mut stage = armed(requested());
    stage.app_stop(StopResult::Held { at: NOON });
    stage.list();
    assert_eq!(stage.take(), ["app pre-stop-held", "stops []"]);
    let line = stage.app_released(false);
    assert!(line.contains("the pod is not being deleted"), "{line}");
    assert_eq!(stage.take(), ["app pre-stop-released", ARMED]);
}

/// The grace period of the deletion is shorter than that of the spec.
#[test]
fn time_is_part_of_the_grace_period() {
    let mut stage = Stage::app_held(requested(), 6);
    assert_eq!(stage.take(), ["app pre-stop-held", "stops [app 4s]"]);
    stage.pass(seconds(5));
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.app_released(false);
    assert!(
        line.contains("the rest of the pod's grace period"),
        "{line}"
    );

    let spec = Pod {
        grace: seconds(2),
        ..requested()
    };
    assert_eq!(
        stage_of(spec),
        [
            "app pre-stop-unsupported: its stop signal cannot be held: the pod's grace period of 2s leaves no time, because the container needs 2s after its stop signal"
        ]
    );
}

fn stage_of(spec: Pod) -> Vec<String> {
    let stage = stage(Mode::Enforce, spec);
    let about = stage.log.into_iter();
    about.filter(|line| line.contains("pre-stop")).collect()
}

/// The app is killed when Kubernetes would have killed it.
#[test]
fn app_that_ignores_its_signal_ends_with_the_grace_period() {
    let mut stage = Stage::app_held(requested(), 30);
    stage.pass(seconds(10));
    stage.app_released(true);
    stage.take();
    stage.pass(seconds(20));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["a SIGKILL", "app linger-killed"]);
}

#[test]
fn app_that_exits_without_a_signal_is_released() {
    let mut stage = Stage::app_held(requested(), 30);
    stage.take();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.app_released(false);
    assert!(line.contains("the app ended by itself"), "{line}");
}

/// The sidecar lingers until the app has ended.
#[test]
fn sidecar_lingers_beyond_the_time() {
    let spec = annotated(requested(), "usher.dev/linger", "true");
    let mut stage = stage(Mode::Enforce, spec);
    assert_eq!(stage.take(), ["stops [istio-proxy 23s, app 10s]"]);
    stage.delete(30, 0);
    let (key, name) = (key("i"), PROXY.to_owned());
    let result = StopResult::Held { at: NOON };
    stage.send(Event::Stop { key, name, result });
    stage.app_stop(StopResult::Held { at: NOON });
    stage.list();
    stage.pass(seconds(10));
    stage.take();
    stage.app_released(true);
    assert_eq!(
        stage.take(),
        ["app pre-stop-released", "stops [istio-proxy 23s]"]
    );
    stage.pass(Duration::from_secs(3));
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["stops []"]);
}
