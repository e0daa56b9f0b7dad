//! A pre-stop time of `auto`: the traffic of the app decides.

use super::*;
use crate::linger::pre_stop::traffic::Sample;

const SAMPLE: &str = "sample a without [15000, 15020, 15021]";
/// The default grace period of 30 s less 2 s.
const ARMED_FOR_ALL: &str = "stops [app 28s]";
const SILENT: Sample = Sample {
    internal: 0,
    is_first: false,
    listens: true,
    connections: 0,
    bytes: 0,
    from_node: 0,
};
const BUSY: Sample = Sample { bytes: 1, ..SILENT };

fn auto() -> Pod {
    let spec = pod(RestartPolicy::Always, &["app"]);
    annotated(spec, "usher.dev/pre-stop", "auto")
}

/// The stop signal of the app waits.
fn held(spec: Pod) -> Stage {
    let mut stage = stage(Mode::Enforce, spec);
    assert_eq!(stage.take(), [ARMED_FOR_ALL]);
    stage.delete(30, 0);
    stage.app_stop(StopResult::Held { at: NOON });
    stage.list();
    assert_eq!(stage.take(), ["app pre-stop-held"]);
    stage
}

impl Stage {
    fn sampled(&mut self, sample: Result<Sample, String>) {
        let key = key("a");
        self.send(Event::TrafficSampled { key, sample });
    }

    /// Passes half a second, and replies to each sample. Returns whether the signal is released.
    fn half_second(&mut self, sample: Sample) -> bool {
        self.pass(Duration::from_millis(500));
        loop {
            match &self.take()[..] {
                [] => return false,
                [line] if line == SAMPLE => self.sampled(Ok(sample)),
                [line] if line == "stops []" => return true,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Passes the time until the first sample, and replies to it.
    fn first_sample(&mut self) {
        self.pass(Duration::from_millis(2400));
        assert_eq!(self.take(), [""; 0]);
        self.pass(Duration::from_millis(100));
        assert_eq!(self.take(), [SAMPLE]);
        self.sampled(Ok(Sample {
            is_first: true,
            ..SILENT
        }));
        assert_eq!(self.take(), [""; 0]);
    }

    fn is_released(&mut self) -> bool {
        match &self.take()[..] {
            [] => false,
            [line] if line == "stops []" => true,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn silent_app_receives_its_signal_after_the_floor() {
    let mut stage = held(auto());
    stage.first_sample();
    for _ in 0..4 {
        assert!(!stage.half_second(SILENT));
    }
    assert!(stage.half_second(SILENT));
    assert_eq!(
        stage.app_released_after(seconds(5), false),
        "app pre-stop-released: clients have sent nothing for 2s; its stop signal was held for 5000 ms"
    );
    assert_eq!(stage.take(), ["app pre-stop-released"]);
    // The app has the rest of the grace period.
    stage.pass(seconds(25));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), ["a SIGKILL", "app linger-killed"]);
}

#[test]
fn busy_app_receives_its_signal_when_clients_are_silent() {
    let mut stage = held(auto());
    stage.first_sample();
    for _ in 0..20 {
        assert!(!stage.half_second(BUSY));
    }
    for _ in 0..3 {
        assert!(!stage.half_second(SILENT));
    }
    assert!(stage.half_second(SILENT));
    let line = stage.app_released(false);
    assert!(line.contains("clients have sent nothing"), "{line}");
}

#[test]
fn grace_period_is_the_ceiling() {
    let mut stage = held(auto());
    stage.first_sample();
    for _ in 0..50 {
        assert!(!stage.half_second(BUSY));
    }
    // 28 s have passed.
    assert!(stage.half_second(BUSY));
    let line = stage.app_released(false);
    assert!(
        line.contains("the rest of the pod's grace period is for the app"),
        "{line}"
    );
}

/// The holder may release before the agent does.
#[test]
fn holder_releases_at_the_ceiling() {
    let mut stage = held(auto());
    stage.first_sample();
    let line = stage.app_released(true);
    assert!(
        line.contains("the rest of the pod's grace period is for the app"),
        "{line}"
    );
}

#[test]
fn floor_is_all_without_samples() {
    let mut stage = held(auto());
    stage.pass(Duration::from_millis(2500));
    assert_eq!(stage.take(), [SAMPLE]);
    stage.sampled(Err("no worker".to_owned()));
    stage.pass(Duration::from_millis(2400));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(Duration::from_millis(100));
    assert!(stage.is_released());
    assert_eq!(
        stage.app_released(false),
        "app pre-stop-released: its least time of 5s has passed, and its traffic cannot be measured: its sockets could not be read; its stop signal was held for 10.0 s"
    );
}

#[test]
fn floor_is_all_with_host_network_and_without_a_listener() {
    let host = Pod {
        host_network: true,
        ..auto()
    };
    let mut stage = held(host);
    stage.pass(seconds(5));
    assert!(stage.is_released());
    let line = stage.app_released(false);
    assert!(line.contains("the pod uses hostNetwork"), "{line}");

    let mut stage = held(auto());
    stage.pass(Duration::from_millis(2500));
    assert_eq!(stage.take(), [SAMPLE]);
    stage.sampled(Ok(Sample::default()));
    stage.pass(Duration::from_millis(2500));
    assert!(stage.is_released());
    let line = stage.app_released(false);
    assert!(line.contains("listens at no TCP port"), "{line}");
}

/// A restart by a liveness probe.
#[test]
fn pod_that_is_not_deleted_is_not_sampled() {
    let mut stage = stage(Mode::Enforce, auto());
    stage.take();
    stage.app_stop(StopResult::Held { at: NOON });
    stage.list();
    assert_eq!(stage.take(), ["app pre-stop-held", "stops []"]);
    stage.pass(seconds(20));
    assert_eq!(stage.take(), [""; 0]);
}

#[test]
fn app_that_ends_is_not_sampled_any_more() {
    let mut stage = held(auto());
    stage.first_sample();
    stage.exit("a", 0);
    assert!(stage.is_released());
    stage.pass(seconds(20));
    assert_eq!(stage.take(), [""; 0]);
    stage.sampled(Ok(BUSY));
    assert_eq!(stage.take(), [""; 0]);
}
