//! Stop signals of sidecars that wait until the apps of a deleted pod have ended.

mod creation;
mod deadline;
mod drain;
mod not_wanted;
mod observe;
mod order;

use std::time::Duration;

use proptest::prelude::*;

use super::stage::*;
use crate::{
    Event,
    base::id::ContainerId,
    decision::Verb,
    engine::request::{Answer, OperatorRequest},
    linger::StopResult,
    pod::{container_change::ContainerChange, restart_policy::RestartPolicy, spec::Pod},
    quit::outcome::Outcome,
    settings::mode::Mode,
};

/// The wall clock at the start of every scenario.
pub(super) const NOON: Duration = Duration::from_secs(1_700_000_000);
/// The default grace period of 30 s less 2 s and the 5 s that Istio's proxy takes.
const ARMED: &str = "stops [istio-proxy 23s]";
const HELD: &str = "istio-proxy linger-held";
const RELEASED: &str = "istio-proxy linger-released";
const DRAIN: &str = "i drain POST :15020/drain";

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn annotated(mut spec: Pod, value: &str) -> Pod {
    let linger = ("usher.dev/linger".to_owned(), value.to_owned());
    spec.annotations.extend([linger]);
    spec
}

fn requested() -> Pod {
    annotated(pod(RestartPolicy::Always, &["app"]), "true")
}

pub(super) fn stage(linger: Mode, spec: Pod) -> Stage {
    let mut stage = Stage::new(Mode::Off, spec);
    stage.hold_mode = linger;
    stage.mode(Mode::Off);
    stage.run_all();
    // Longer than the minimum interval between two requests to the kubelet.
    stage.pass(seconds(1));
    stage
}

/// A pod whose sidecar's first stop signal will wait.
fn armed(spec: Pod) -> Stage {
    let mut stage = stage(Mode::Enforce, spec);
    assert_eq!(stage.take(), [ARMED]);
    stage
}

impl Stage {
    fn stop_reported(&mut self, result: StopResult) {
        let name = PROXY.to_owned();
        self.send(Event::Stop {
            key: key("i"),
            name,
            result,
        });
    }

    fn held_at(&mut self, at: Duration) {
        self.stop_reported(StopResult::Held { at });
    }

    fn stop_released(&mut self, at_limit: bool) -> String {
        self.released_after(seconds(4), at_limit)
    }

    fn released_after(&mut self, held: Duration, at_limit: bool) -> String {
        self.log.clear();
        self.stop_reported(StopResult::Released { held, at_limit });
        self.log
            .iter()
            .find(|line| line.starts_with(RELEASED))
            .cloned()
            .unwrap_or_default()
    }

    /// The API server has accepted the deletion, `ago` before noon.
    pub(super) fn delete(&mut self, grace: u64, ago: u64) {
        self.spec.deleting = true;
        self.spec.grace = seconds(grace);
        self.spec.deletion_expires = Some(NOON + seconds(grace) - seconds(ago));
    }

    /// A deleted pod. The stop signal of its sidecar is held.
    fn lingering(spec: Pod) -> Self {
        let mut stage = armed(spec);
        stage.delete(30, 0);
        stage.held_at(NOON);
        assert!(stage.lists_pods);
        stage.list();
        assert_eq!(stage.take(), [HELD, DRAIN]);
        stage
    }
}

#[test]
fn released_when_the_last_app_has_ended() {
    let spec = annotated(pod(RestartPolicy::Always, &["app", "boss"]), "true");
    let mut stage = Stage::lingering(spec);
    stage.pass(seconds(3));
    stage.exit("a", 0);
    assert_eq!(stage.take(), [""; 0]);
    stage.exit("b", 0);
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.stop_released(false);
    assert!(
        line.ends_with("no app of the pod runs; its stop signal was held for 4000 ms"),
        "{line}"
    );
    stage.exit("i", 0);
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [RELEASED]);
    assert_eq!(stage.engine.census().held_stops, 0);
}

#[test]
fn nothing_waits_without_the_annotation_or_the_mode() {
    let plain = pod(RestartPolicy::Always, &["app"]);
    for (mode, spec) in [
        (Mode::Enforce, plain.clone()),
        (Mode::Enforce, annotated(plain, "false")),
        (Mode::Off, requested()),
        // A gateway: the proxy is the workload.
        (
            Mode::Enforce,
            annotated(pod(RestartPolicy::Always, &[]), "true"),
        ),
    ] {
        assert_eq!(stage(mode, spec).take(), [""; 0]);
    }
    let observed = stage(Mode::Observe, requested()).take();
    assert_eq!(observed, ["stops [istio-proxy observed, app observed]"]);
}

/// A sidecar that needs its stop signal at once, by its recipe.
#[test]
fn recipe_exempts_its_sidecar() {
    let text = "recipes: [{name: istio, recognize: [{name: [istio-proxy]}], quit: [{signal: SIGTERM}], linger: never}]";
    let config = crate::settings::config::Config::parse("test", text).unwrap();
    let mut stage = Stage::new(Mode::Off, requested());
    stage.hold_mode = Mode::Enforce;
    stage.mode(Mode::Off);
    stage.configure(config);
    stage.run_all();
    assert_eq!(stage.take(), [""; 0]);
}

/// A liveness restart of the sidecar: the pod is not being deleted.
#[test]
fn restart_of_the_sidecar_is_not_delayed_and_the_next_signal_waits() {
    let mut stage = armed(requested());
    // A list that was requested before the signal proves nothing.
    stage.held_at(NOON);
    assert_eq!(stage.take(), [HELD]);
    assert!(stage.lists_pods);
    stage.list();
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.stop_released(false);
    assert!(line.contains("the pod is not being deleted"), "{line}");
    assert_eq!(stage.take(), [RELEASED, ARMED]);
    stage.exit("i", 0);
    stage.start(PROXY, "j");
    assert_eq!(stage.take(), ["stops []", ARMED]);
}

#[test]
fn older_list_proves_nothing() {
    let mut stage = armed(requested());
    stage.pass(seconds(1000));
    assert!(!stage.lists_pods);
    // Another event of the pod has requested a list, and the signal comes before the reply.
    stage.send(Event::Modes(crate::settings::mode::Modes {
        linger: Mode::Enforce,
        ..Default::default()
    }));
    assert!(stage.lists_pods);
    stage.now = stage.now + Duration::from_millis(5);
    stage.held_at(NOON);
    stage.take();
    stage.list();
    assert_eq!(stage.take(), [""; 0], "released by an older list");
    stage.delete(30, 0);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), [DRAIN]);
}

#[test]
fn sidecar_that_ends_by_itself_is_released() {
    let mut stage = Stage::lingering(requested());
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["stops []"]);
    let line = stage.stop_released(false);
    assert!(line.contains("the sidecar ended by itself"), "{line}");
}

#[test]
fn annotation_that_is_removed_releases_it() {
    let mut stage = Stage::lingering(requested());
    stage.spec.annotations.clear();
    stage.list();
    assert_eq!(stage.take(), ["stops []"]);
    assert!(stage.stop_released(false).contains("changed"));
}

#[test]
fn end_of_the_holder_is_reported() {
    let mut stage = Stage::lingering(requested());
    stage.stop_reported(StopResult::Lost);
    assert_eq!(stage.take(), [RELEASED, "stops []"]);
    // No stop signal was held, so the next pod has no report.
    let mut stage = armed(requested());
    stage.stop_reported(StopResult::Lost);
    assert_eq!(stage.take(), [""; 0]);
}

#[test]
fn unknown_layout_of_the_runtime_is_reported_once() {
    let mut stage = armed(requested());
    let reason = "no state".to_owned();
    stage.stop_reported(StopResult::Unsupported(reason.clone()));
    assert_eq!(stage.take(), ["istio-proxy linger-unsupported", "stops []"]);
    stage.exit("i", 1);
    stage.start(PROXY, "j");
    assert_eq!(stage.take(), [ARMED]);
    let (key, name) = (key("j"), PROXY.to_owned());
    let result = StopResult::Unsupported(reason);
    stage.send(Event::Stop { key, name, result });
    assert_eq!(stage.take(), ["stops []"]);
}

#[test]
fn operator_releases_it() {
    let mut stage = Stage::lingering(requested());
    let request = |dry_run| {
        Event::Operator(OperatorRequest {
            pod: uid(),
            verb: Verb::Release,
            requester: crate::decision::Requester { uid: 0, pid: 1 },
            dry_run,
        })
    };
    stage.send(request(true));
    assert_eq!(stage.take(), [""; 0]);
    stage.send(request(false));
    assert!(stage.take().contains(&"stops []".to_owned()));
    assert!(matches!(stage.answers.last(), Some(Answer::Taken(_))));
    assert!(stage.stop_released(false).contains("operator"));
}

#[test]
fn pod_that_is_gone_is_withdrawn() {
    let mut stage = Stage::lingering(requested());
    stage.send(Event::PodGone(uid()));
    assert_eq!(stage.take(), ["stops []"]);
}

proptest! {
    /// A stop signal is never held beyond the grace period of the deletion.
    #[test]
    fn never_beyond_the_grace_period(
        grace in 1..60_u64,
        ago in 0..10_u64,
        events in prop::collection::vec((0..8_u8, 1..5_000_u64), 0..20),
    ) {
        let mut stage = armed(requested());
        stage.delete(grace, ago);
        stage.held_at(NOON);
        let (begin, mut is_held) = (stage.now, true);
        for (event, wait) in events {
            stage.pass(Duration::from_millis(wait));
            match event {
                0 => stage.list(),
                1 => stage.start("app", "c"),
                2 => stage.exit("c", 0),
                3 => stage.spec.grace = seconds(90),
                4 => stage.appear("x"),
                5 => stage.exit("x", 1),
                _ => {}
            }
            is_held &= !stage.take().contains(&"stops []".to_owned());
        }
        stage.pass((begin + seconds(grace)).since(stage.now));
        is_held &= !stage.take().contains(&"stops []".to_owned());
        prop_assert!(!is_held);
    }
}

#[test]
fn container_id_of_a_stop_is_that_of_the_newest_run() {
    let stage = armed(requested());
    let ids = stage.actions.iter().filter_map(|action| match action {
        crate::Action::HoldStops { stops, .. } => Some(stops.first()?.id.clone()),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<ContainerId>>(), [id("i")]);
}
