//! Several sidecars of one pod: the order of their stop signals, and the remaining time of the later ones.

use super::*;
use crate::{pod::spec::plain, settings::config::Config};

/// `x` ships logs, `m` is a mesh proxy, `h` a helper; each takes this many seconds to end after its signal.
fn recipes([helper, logs, mesh]: [u64; 3]) -> Config {
    let recipe = |name: &str, order: &str, takes: u64| {
        format!(
            "{{name: {name}, order: {order}, recognise: [{{name: [{name}]}}], quit: [{{signal: SIGTERM, takes: {takes}s}}]}}"
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
    let names = ["app", "h", "x", "m"];
    let spec = Pod {
        restart_policy: RestartPolicy::Always,
        grace: seconds(grace),
        ..plain::pod(names.map(container).into())
    };
    let mut stage = Stage::new(Mode::Off, annotated(spec, "true"));
    stage.hold_mode = Mode::Enforce;
    stage.mode(Mode::Off);
    stage.send(Event::Configured(std::sync::Arc::new(recipes(takes))));
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
}
