//! Several sidecars of one pod: the order of their stop signals, and the remaining time of the later ones.

use super::*;
use crate::{kube_event::EventRecorder, pod::spec::plain, settings::config::Config};

/// `x` ships logs, `m` is a mesh proxy, `h` a helper; each takes this many seconds to end after its signal.
fn recipes([helper, logs, mesh]: [u64; 3]) -> Config {
    let recipe = |name: &str, stage: &str, takes: u64| {
        format!(
            "{{name: {name}, stage: {stage}, recognize: [{{name: [{name}]}}], quit: [{{signal: SIGTERM, takes: {takes}s}}]}}"
        )
    };
    let recipes = [
        recipe("h", "helper", helper),
        recipe("x", "logs", logs),
        recipe("m", "mesh", mesh),
    ];
    let text = format!("recipes: [{}]", recipes.join(", "));
    Config::parse("test", &text).unwrap()
}

/// A deleted pod. The stop signals of its three sidecars are held.
fn lingering(takes: [u64; 3], grace: u64) -> Stage {
    lingering_pod(takes, pod_of_all(grace))
}

fn pod_of_all(grace: u64) -> Pod {
    let names = ["app", "h", "x", "m"];
    let spec = Pod {
        restart_policy: RestartPolicy::Always,
        grace: seconds(grace),
        ..plain::pod(names.map(container).into())
    };
    annotated(spec, "true")
}

fn lingering_pod(takes: [u64; 3], spec: Pod) -> Stage {
    let grace = spec.grace.as_secs();
    let mut stage = Stage::new(Mode::Off, spec);
    stage.hold_mode = Mode::Enforce;
    stage.mode(Mode::Off);
    stage.configure(recipes(takes));
    stage.run_all();
    stage.pass(seconds(1));
    stage.delete(grace, 0);
    for name in ["h", "x", "m"] {
        stage.stop_of(name, StopResult::Held { at: NOON });
    }
    stage.list();
    stage
}

impl Stage {
    fn stop_of(&mut self, name: &str, result: StopResult) {
        let key = key(name);
        let name = name.to_owned();
        self.send(Event::Stop { key, name, result });
    }

    /// The sidecars with a held stop signal, by the last order to the holder.
    fn held_stops(&self) -> Vec<String> {
        let mut stops = self.actions.iter().rev();
        let last = stops.find_map(|action| match action {
            crate::Action::HoldStops { stops, .. } => Some(stops),
            _ => None,
        });
        let names = last
            .into_iter()
            .flatten()
            .map(|stop| stop.container.clone());
        names.collect()
    }

    /// Whether the last report about this sidecar has this reason, and no Event.
    fn is_reported_without_an_event(&self, name: &str, reason: &str) -> bool {
        let mut reports = self.actions.iter().rev();
        let report = reports.find_map(|action| match action {
            crate::Action::Report(decision) if decision.container.as_deref() == Some(name) => {
                Some(decision)
            }
            _ => None,
        });
        report.is_some_and(|decision| {
            let event = EventRecorder::new("node".to_owned()).notice(0, decision);
            decision.kind.reason().contains(reason) && event.is_none()
        })
    }

    fn release(&mut self, name: &str) {
        let held = seconds(1);
        self.stop_of(
            name,
            StopResult::Released {
                held,
                at_limit: false,
            },
        );
    }
}

#[test]
fn mesh_proxy_waits_for_helper_and_log_shipper() {
    let mut stage = lingering([0, 5, 5], 60);
    assert_eq!(stage.held_stops(), ["h", "x", "m"]);
    stage.exit("a", 0);
    assert_eq!(stage.held_stops(), ["x", "m"]);
    stage.release("h");
    stage.exit("h", 0);
    assert_eq!(stage.held_stops(), ["m"]);
    stage.release("x");
    stage.pass(seconds(3));
    assert_eq!(stage.held_stops(), ["m"]);
    stage.exit("x", 0);
    assert_eq!(stage.held_stops(), [""; 0]);
}

/// A helper that ignores its signal does not shorten the time of the mesh proxy.
#[test]
fn wait_for_an_earlier_stage_ends_at_the_deadline() {
    let mut stage = lingering([0, 0, 5], 30);
    stage.exit("a", 0);
    stage.release("h");
    stage.exit("x", 0);
    stage.pass(seconds(22));
    assert_eq!(stage.held_stops(), ["m"]);
    stage.pass(seconds(2));
    assert_eq!(stage.held_stops(), [""; 0]);
    stage.release("m");
    assert!(stage.is_reported_without_an_event("m", "a sidecar of an earlier stage still runs"));
}

/// The limit of the annotation passes, or the holder ends, while no app runs.
#[test]
fn early_release_without_an_app_is_no_early_release_for_the_apps() {
    let results = [
        StopResult::Released {
            held: seconds(10),
            at_limit: true,
        },
        StopResult::Lost,
    ];
    for result in results {
        let mut stage = lingering_pod([0, 0, 5], annotated(pod_of_all(30), "10s"));
        stage.exit("a", 0);
        stage.release("h");
        stage.exit("x", 0);
        stage.pass(seconds(10));
        assert_eq!(stage.held_stops(), ["m"]);
        stage.stop_of("m", result);
        assert!(
            stage.is_reported_without_an_event("m", "a sidecar of an earlier stage still runs")
        );
    }
}

/// The holder ends when the release is ordered already.
#[test]
fn end_of_the_holder_after_the_end_of_the_apps_changes_no_result() {
    let mut stage = lingering([0, 0, 5], 30);
    stage.exit("a", 0);
    assert_eq!(stage.held_stops(), ["x", "m"]);
    stage.stop_of("h", StopResult::Lost);
    assert!(stage.is_reported_without_an_event("h", "no app of the pod runs; its stop signal"));
}

/// The app runs until the deadline: 30 s less 2 + 2 + 7, 2 + 7 and 7.
#[test]
fn reserves_of_the_stages_add_up() {
    let mut stage = lingering([0, 0, 5], 30);
    stage.pass(seconds(18));
    assert_eq!(stage.held_stops(), ["h", "x", "m"]);
    stage.pass(seconds(2));
    assert_eq!(stage.held_stops(), ["x", "m"]);
    stage.pass(seconds(2));
    assert_eq!(stage.held_stops(), ["m"]);
    stage.pass(seconds(2));
    assert_eq!(stage.held_stops(), [""; 0]);
}

/// Linkerd's proxy may take 120 s, and the kubelet gives it 30 s.
#[test]
fn half_of_a_grace_period_that_is_too_short_is_reserved() {
    let mut stage = lingering([0, 0, 120], 30);
    stage.exit("h", 0);
    stage.exit("x", 0);
    stage.pass(seconds(14));
    assert_eq!(stage.held_stops(), ["m"]);
    stage.pass(seconds(2));
    assert_eq!(stage.held_stops(), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any durations: each sidecar keeps its own part of the grace period, an earlier stage is released before a
    /// later one if the grace period is long enough for all, and no stop signal is held beyond it.
    #[test]
    fn nothing_outlives_the_deadline(
        takes in prop::array::uniform3(0..40_u64),
        grace in 3..60_u64,
        app_end in 0..70_u64,
        ends in prop::array::uniform3(0..20_u64),
    ) {
        let mut stage = lingering(takes, grace);
        let begin = stage.now;
        let names = ["h", "x", "m"];
        let mut released = [None; 3];
        for half in 0..=(2 * grace + 2) {
            let at = Duration::from_millis(500 * half);
            stage.pass((begin + at).since(stage.now));
            if at == seconds(app_end) {
                stage.exit("a", 0);
            }
            let held = stage.held_stops();
            for (stop, name) in names.iter().enumerate() {
                if released[stop].is_none() && !held.contains(&(*name).to_owned()) {
                    released[stop] = Some(at);
                    stage.release(name);
                }
                if released[stop].is_some_and(|since| at == since + seconds(ends[stop])) {
                    stage.exit(name, 0);
                }
            }
        }
        let all: u64 = takes.iter().map(|takes| 2 + takes).sum();
        let slack = seconds(1);
        for (stop, at) in released.iter().enumerate() {
            let at = at.unwrap();
            let own = (2 + takes[stop]).min(grace.div_ceil(2).max(2));
            prop_assert!(at <= seconds(grace - own.min(grace)) + slack, "{} at {at:?}", names[stop]);
            prop_assert!(stop == 0 || all >= grace || released[stop - 1].unwrap() <= at);
        }
    }
    /// For any durations: while the stop signal of an app waits, no sidecar is released, and both have their deadlines
    /// within the grace period.
    #[test]
    fn app_is_released_before_the_deadline_of_a_sidecar(
        takes in prop::array::uniform3(0..40_u64),
        grace in 3..60_u64,
        pre_stop in prop::sample::select(vec!["auto", "1s", "15s", "10m"]),
    ) {
        let mut spec = pod_of_all(grace);
        let pre_stop = ("usher.dev/pre-stop".to_owned(), pre_stop.to_owned());
        spec.annotations.extend([pre_stop]);
        let mut stage = lingering_pod(takes, spec);
        stage.send(Event::Stop {
            key: key("a"),
            name: "app".to_owned(),
            result: StopResult::Held { at: NOON },
        });
        stage.list();
        let is_held = |held: &[String], name: &str| held.iter().any(|one| one == name);
        let mut held = stage.held_stops();
        prop_assert_eq!(held.len(), 4);
        for _ in 0..(4 * grace) {
            stage.pass(Duration::from_millis(250));
            held = stage.held_stops();
            prop_assert!(held.len() == 4 || !is_held(&held, "app"), "{held:?}");
        }
        prop_assert_eq!(held, Vec::<String>::new());
    }
}
