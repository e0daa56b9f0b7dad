//! Observe mode reports the stop signals that would have waited.

mod costs;

use super::*;
use crate::linger::pre_stop::traffic::Sample;

const OBSERVED: &str = "stops [istio-proxy observed, app observed]";

impl Stage {
    /// In observe mode: the sidecar ends after two seconds, and the app after this time.
    fn observed(spec: Pod, is_deleted: bool, app: Duration) -> Vec<String> {
        let mut stage = stage(Mode::Observe, spec);
        stage.pass(seconds(1000));
        if is_deleted {
            stage.delete(30, 0);
        }
        stage.pass(seconds(2));
        stage.exit("i", 0);
        stage.pass(app - seconds(2));
        // Later events do not change the report.
        stage.delete(30, 0);
        stage.exit("a", 0);
        stage.list();
        stage.take();
        let about = stage.log.into_iter();
        about.filter(|line| line.contains("linger")).collect()
    }

    /// In observe mode: a pod that is deleted, with the runtime's stop commands for these runs.
    fn stopping(runs: &[&str]) -> Self {
        let mut stage = stage(Mode::Observe, pod(RestartPolicy::Always, &["app"]));
        assert_eq!(stage.take(), [OBSERVED]);
        stage.delete(30, 0);
        for run in runs {
            stage.stop_observed(run);
        }
        stage
    }

    fn stop_observed(&mut self, run: &str) {
        let mut containers = self.spec.containers.iter();
        let container = containers.find(|one| run_of(&one.name) == run);
        let name = container.unwrap().name.clone();
        self.send(Event::Stop {
            key: key(run),
            name,
            result: StopResult::Observed,
        });
    }

    fn reply_to_sample(&mut self, run: &str, sample: Result<Sample, String>) {
        let key = key(run);
        self.send(Event::TrafficSampled { key, sample });
    }

    /// The decisions that were reported, with their reasons.
    fn lines_of(&self, decision: &str) -> Vec<&str> {
        let lines = self.log.iter().map(String::as_str);
        lines.filter(|line| line.contains(decision)).collect()
    }
}

#[test]
fn observe_mode_reports_how_long_before_its_app_a_sidecar_ended() {
    let plain = || pod(RestartPolicy::Always, &["app"]);
    for spec in [requested(), plain()] {
        assert_eq!(
            Stage::observed(spec, true, seconds(9)),
            [
                "istio-proxy would-linger: it ended 7000 ms before the last app of the deleted pod; with usher.dev/linger its stop signal would have waited"
            ]
        );
    }
    let none: [String; 0] = [];
    assert_eq!(
        Stage::observed(plain(), true, Duration::from_millis(2500)),
        none
    );
    // The sidecar crashed, and the pod was not deleted.
    assert_eq!(Stage::observed(plain(), false, seconds(9)), none);
    let opted_out = annotated(plain(), "false");
    assert_eq!(Stage::observed(opted_out, true, seconds(9)), none);
}

fn sample_of(run: &str) -> String {
    format!("sample {run} without [15000, 15020, 15021]")
}

const FIRST: Sample = Sample {
    is_first: true,
    listens: true,
    connections: 0,
    bytes: 0,
    from_node: 0,
    internal: 3,
};

fn connected(connections: u64) -> Result<Sample, String> {
    Ok(Sample {
        is_first: false,
        connections,
        ..FIRST
    })
}

#[test]
fn connections_are_counted_at_the_stop_signal_of_the_sidecar() {
    for (sample, open) in [
        (
            Ok(FIRST),
            ", and 3 connections between containers of the pod were open at its stop signal",
        ),
        (
            Ok(Sample {
                internal: 1,
                ..FIRST
            }),
            ", and 1 connection between containers of the pod was open at its stop signal",
        ),
        (Err("no".to_owned()), ""),
    ] {
        let mut stage = Stage::stopping(&["i"]);
        // The second command is that of a runtime which was restarted.
        stage.stop_observed("i");
        stage.list();
        let done = stage.take();
        let samples = done.iter().filter(|line| line.starts_with("sample"));
        assert_eq!(samples.collect::<Vec<_>>(), [&sample_of("i")]);
        assert!(done.iter().any(|line| line == "stops [app observed]"));
        stage.reply_to_sample("i", sample);
        stage.pass(seconds(5));
        stage.exit("i", 0);
        stage.pass(seconds(7));
        stage.exit("a", 0);
        assert_eq!(
            stage.lines_of("would-"),
            [format!(
                "istio-proxy would-linger: it ended 7000 ms before the last app of the deleted pod{open}; with usher.dev/linger its stop signal would have waited"
            )]
        );
    }
}

#[test]
fn inbound_connections_are_counted_until_the_end_of_the_app() {
    let mut stage = Stage::stopping(&["a"]);
    stage.list();
    stage.take();
    stage.reply_to_sample("a", Ok(FIRST));
    for _ in 0..2 {
        stage.pass(Duration::from_millis(1900));
        assert_eq!(stage.take(), [""; 0]);
        stage.pass(Duration::from_millis(100));
        assert_eq!(stage.take().len(), 1, "a sample");
        stage.reply_to_sample("a", connected(4));
    }
    stage.pass(seconds(1));
    stage.exit("a", 0);
    assert!(stage.take().contains(&sample_of("a")));
    stage.reply_to_sample("a", connected(2));
    let reported = stage.lines_of("would-pre-stop");
    assert_eq!(reported.len(), 1, "{reported:?}");
    let expected = "app would-pre-stop: clients opened 10 connections in the 500";
    assert!(reported[0].starts_with(expected), "{reported:?}");
}

/// No container is left, so nothing can be read at the end of the app.
#[test]
fn inbound_connections_of_a_pod_that_ends_with_its_app_are_reported_at_once() {
    let mut stage = Stage::stopping(&["a"]);
    stage.list();
    stage.reply_to_sample("a", Ok(FIRST));
    stage.pass(seconds(2));
    stage.reply_to_sample("a", connected(4));
    stage.exit("i", 0);
    stage.take();
    stage.exit("a", 0);
    let samples = stage.take();
    assert!(!samples.contains(&sample_of("a")), "{samples:?}");
    let reported = stage.lines_of("would-pre-stop");
    let expected = "app would-pre-stop: clients opened 4 connections in the 200";
    assert!(reported[0].starts_with(expected), "{reported:?}");
}

/// The sockets of its network namespace are the node's.
#[test]
fn connections_of_a_host_network_pod_are_not_counted() {
    let spec = Pod {
        host_network: true,
        ..pod(RestartPolicy::Always, &["app"])
    };
    let mut stage = stage(Mode::Observe, spec);
    stage.take();
    stage.delete(30, 0);
    stage.stop_observed("i");
    stage.list();
    assert_eq!(
        stage
            .take()
            .iter()
            .filter(|line| line.starts_with("sample"))
            .count(),
        0
    );
}

/// The number of samples is bounded, and so are the samples of a pod with no reply, or with none that counts.
#[test]
fn inbound_connections_that_are_not_reported() {
    let mut stage = Stage::stopping(&["a"]);
    stage.list();
    stage.take();
    stage.reply_to_sample("a", Ok(FIRST));
    let mut samples = 1;
    for _ in 0..100 {
        stage.pass(seconds(2));
        if !stage.take().is_empty() {
            samples += 1;
            stage.reply_to_sample("a", connected(0));
        }
    }
    assert_eq!(samples, 30);
    stage.exit("a", 0);
    stage.reply_to_sample("a", connected(0));
    assert_eq!(stage.lines_of("would-pre-stop"), [""; 0]);

    let mut stage = Stage::stopping(&["a"]);
    stage.list();
    stage.reply_to_sample("a", Err("no".to_owned()));
    stage.pass(seconds(9));
    stage.exit("a", 0);
    stage.reply_to_sample("a", connected(9));
    assert_eq!(stage.lines_of("would-pre-stop"), [""; 0]);
}

/// A liveness restart, or a command that is no stop.
#[test]
fn stop_signals_without_a_deletion_are_not_reported() {
    let mut stage = stage(Mode::Observe, pod(RestartPolicy::Always, &["app"]));
    stage.take();
    stage.stop_observed("a");
    stage.stop_observed("i");
    assert!(stage.lists_pods);
    stage.list();
    stage.reply_to_sample("a", Ok(FIRST));
    stage.reply_to_sample("i", Ok(FIRST));
    stage.pass(seconds(9));
    assert_eq!(stage.take().last().unwrap(), OBSERVED);
    stage.exit("i", 0);
    stage.pass(seconds(9));
    stage.exit("a", 0);
    stage.reply_to_sample("a", connected(9));
    assert_eq!(stage.lines_of("would-"), [""; 0]);
}
