//! How long sidecars run on after their apps, and apps after their sidecars.

use std::time::Duration;

use super::Scenario;
use crate::admin::NamespaceCost;

/// A pod of a Deployment in the mesh.
const MESHED: &str = "Always app istio-proxy args=istio-proxy=proxy_sidecar";
const JOB: &str = "Never app istio-proxy";

/// One row: the pod, the events, the costs.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

fn applied(pod: &str, events: &str) -> Vec<String> {
    let mut scenario = Scenario::new(pod, "");
    for word in events.split_whitespace() {
        scenario.apply(word);
    }
    scenario.costs().iter().map(text).collect()
}

/// The costs, with times rounded to tenths of a second: the stage's kubelet answers within milliseconds.
fn text(cost: &NamespaceCost) -> String {
    let tenths = |seconds: f64| Duration::from_secs_f64((seconds * 10.0).round() / 10.0);
    let ran_on = tenths(cost.pod_hours * 3600.0);
    let gap = tenths(cost.sigterm_gap_seconds);
    let NamespaceCost { pods, running, .. } = cost;
    format!("{pods} pods {running} running {ran_on:?} gap {gap:?}")
}

fn check(rows: &[Row]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(what, pod, events, expected)| {
            let costs = applied(pod, events);
            (costs != *expected).then(|| {
                format!("{what}\n  {pod} | {events}\n  want {expected:?}\n  have {costs:?}")
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sidecars_run_on() {
    check(&[
        ("the app runs", JOB, "all 1m", &[]),
        (
            "up to now",
            JOB,
            "observe all 1m app!0 20s",
            &["1 pods 1 running 20s gap 0ns"],
        ),
        (
            "until the sidecar ends",
            JOB,
            "observe all 1m app!0 20s istio-proxy!0 1m",
            &["1 pods 0 running 20s gap 0ns"],
        ),
        (
            "until the pod goes",
            JOB,
            "observe all 1m app!0 20s gone 1m",
            &["1 pods 0 running 20s gap 0ns"],
        ),
        (
            "as long as it takes to end it",
            JOB,
            "all 1m app!0 istio-proxy>accepted 500ms istio-proxy!0 1m",
            &["1 pods 0 running 500ms gap 0ns"],
        ),
        (
            "not before the last app has ended",
            "Never app other istio-proxy",
            "observe all app!0 1m other!0 5s istio-proxy!0 1m",
            &["1 pods 0 running 5s gap 0ns"],
        ),
        (
            "until the last sidecar ends",
            "Never app istio-proxy logs",
            "observe all app!0 1m istio-proxy!0 5s logs!0 1m",
            &["1 pods 0 running 65s gap 0ns"],
        ),
        (
            "the sidecar ends first",
            JOB,
            "observe all istio-proxy!0 1m app!0 1m",
            &[],
        ),
        (
            "a sidecar that is started again",
            "OnFailure app istio-proxy",
            "observe all app!0 5s istio-proxy!1 10s +istio-proxy 20s istio-proxy!0 1m",
            &["1 pods 0 running 25s gap 0ns"],
        ),
        (
            "an app that is started again",
            "OnFailure app istio-proxy",
            "observe all app!1 10s +app 1m app!0 5s istio-proxy!0",
            &["1 pods 0 running 5s gap 0ns"],
        ),
        (
            "the exit code decides, and is known later",
            "OnFailure app istio-proxy",
            "observe all app! 10s app=T0 list 10s istio-proxy!0 1m",
            &["1 pods 0 running 20s gap 0ns"],
        ),
        (
            "the end of the app was not seen",
            JOB,
            "observe pod +sandbox? +istio-proxy app=T0 list 10s istio-proxy!0 1m",
            &["1 pods 0 running 10s gap 0ns"],
        ),
        (
            "an opted-out pod",
            "Never app istio-proxy usher.dev/quit=false",
            "all app!0 10s istio-proxy!0",
            &["1 pods 0 running 10s gap 0ns"],
        ),
        ("no sidecar", "Never app", "all app!0 10s", &[]),
        ("off", JOB, "off all app!0 10s", &[]),
        (
            "off from some time on",
            JOB,
            "observe all app!0 10s off 1m istio-proxy!0",
            &["1 pods 0 running 10s gap 0ns"],
        ),
        (
            "a native sidecar",
            "Never app native=istio-proxy",
            "all app!0 10s",
            &[],
        ),
    ]);
}

#[test]
fn pods_that_are_deleted() {
    check(&[
        (
            "the sidecar runs on",
            MESHED,
            "observe all deleting app!0 4s istio-proxy!0 gone",
            &["1 pods 0 running 4s gap 0ns"],
        ),
        (
            "the deletion is learned when the app ends",
            MESHED,
            "observe all 10s marked app!0 4s istio-proxy!0 gone",
            &["1 pods 0 running 4s gap 0ns"],
        ),
        (
            "no request ends the sidecar: the kubelet is not queried",
            "Always app sql",
            "observe all 10s marked app!0 4s sql!0 gone",
            &["1 pods 0 running 4s gap 0ns"],
        ),
        (
            "the app runs on",
            MESHED,
            "observe all deleting istio-proxy!0 7s app!0 1s gone",
            &["0 pods 0 running 0ns gap 7s"],
        ),
        (
            "the deletion is learned when the sidecar ends",
            MESHED,
            "observe all 10s marked istio-proxy!0 7s app!0 1s gone",
            &["0 pods 0 running 0ns gap 7s"],
        ),
        (
            "up to now",
            MESHED,
            "observe all 10s marked istio-proxy!0 7s",
            &["0 pods 0 running 0ns gap 7s"],
        ),
        (
            "of a Job",
            JOB,
            "observe all 10s marked istio-proxy!0 7s app!0 1m gone",
            &["0 pods 0 running 0ns gap 7s"],
        ),
        (
            "from the first sidecar to the last app",
            "Always app other istio-proxy logs",
            "observe all deleting istio-proxy!0 1s logs!0 2s app!0 3s other!0 gone",
            &["0 pods 0 running 0ns gap 6s"],
        ),
        (
            "one sidecar ends before the app, the other one after",
            "Always app istio-proxy logs",
            "observe all deleting istio-proxy!0 1s app!0 3s logs!0 gone",
            &["1 pods 0 running 3s gap 1s"],
        ),
        (
            "the sidecar had ended long before",
            "Always app istio-proxy",
            "observe all istio-proxy!0 1m marked list app!0 gone",
            &[],
        ),
        (
            "it had ended and was started again",
            "Always app istio-proxy",
            "observe all istio-proxy!1 10s +istio-proxy 1m marked list istio-proxy!0 2s app!0 gone",
            &["0 pods 0 running 0ns gap 2s"],
        ),
        (
            "off",
            MESHED,
            "off all deleting istio-proxy!0 7s app!0 gone",
            &[],
        ),
        (
            "no deletion",
            JOB,
            "observe all istio-proxy!0 7s app!0 1m gone",
            &[],
        ),
    ]);
}

#[test]
fn requests_for_the_time_that_sidecars_run_on() {
    let mut scenario = Scenario::new(
        "Never app istio-proxy requests=app=1500,1073741824 requests=istio-proxy=500,536870912",
        "",
    );
    for word in "observe all app!0 3600s istio-proxy!0".split_whitespace() {
        scenario.apply(word);
    }
    let costs = scenario.costs();
    let cost = &costs[0];
    assert_eq!(cost.namespace.as_deref(), Some("shop"));
    for (have, want) in [
        (cost.pod_hours, 1.0),
        (cost.cpu_hours, 2.0),
        (cost.memory_gib_hours, 1.5),
        (cost.sidecar_cpu_hours, 0.5),
        (cost.sidecar_memory_gib_hours, 0.5),
    ] {
        assert!((have - want).abs() < 0.001, "{cost:?}");
    }
}
