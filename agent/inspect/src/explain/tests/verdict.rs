//! The exact texts of verdicts.

use serde_json::{Value, json};
use usher_core::decision::timeline::Detail;

use super::{
    Scenario, healthy,
    pods::{app, istio, job, native, proxy, time},
};

/// A Job's pod with an init container before its app.
fn with_init() -> Scenario {
    let mut pod = job(&[app(json!({}))]);
    pod["spec"]["initContainers"] = json!([proxy("fetch", "registry.example/fetch:1", json!({}))]);
    Scenario::new(pod)
}

fn waiting(
    mut scenario: Scenario,
    list: &str,
    name: &str,
    state: &Value,
    last: &Value,
) -> Scenario {
    let status = json!({"name": name, "restartCount": 0, "state": state, "lastState": last});
    scenario.pod["status"][list] = json!([status]);
    scenario
}

/// The app is in the state Waiting with this reason.
fn app_waits(scenario: Scenario, reason: &str, last: &Value) -> Scenario {
    let state = json!({"waiting": {"reason": reason}});
    waiting(scenario, "containerStatuses", "app", &state, last)
}

#[track_caller]
fn stands(table: &[(Scenario, bool, &str)]) {
    for (scenario, healthy, message) in table {
        let verdict = scenario.explain().verdict;
        assert_eq!(
            (&verdict.message[..], verdict.healthy),
            (*message, *healthy)
        );
    }
}

#[test]
fn pod_that_begins() {
    let init = |state: Value| {
        waiting(
            with_init(),
            "initContainerStatuses",
            "fetch",
            &state,
            &json!({}),
        )
    };
    let fetched = || with_init().ended("fetch", 50, 40, 0);
    let plain = || Scenario::new(job(&[app(json!({}))]));
    let failed = json!({"terminated": {"exitCode": 3}});
    let sidecar_first = app_waits(
        Scenario::new(native(&[app(json!({}))])).running("istio-proxy", 20),
        "PodInitializing",
        &json!({}),
    );
    let behind = healthy().unready("istio-proxy");
    #[rustfmt::skip]
    stands(&[
        (with_init(), true, "init container fetch has not started (not created yet)"),
        (init(json!({"waiting": {"reason": "PodInitializing"}})), true, "init container fetch has not started (PodInitializing)"),
        (init(json!({"running": {}})), true, "init container fetch is running"),
        (with_init().policy("OnFailure").ended("fetch", 50, 40, 2), false, "init container fetch ended with exit code 2 and will restart"),
        (app_waits(fetched(), "PodInitializing", &json!({})), true, "app app has not started (PodInitializing)"),
        // The status of init containers may be outdated.
        (with_init().running("app", 30), true, "app app has been running for 30 s"),
        // A sidecar in any state does not delay the pod.
        (sidecar_first, true, "app app has not started (PodInitializing)"),
        (app_waits(plain(), "ContainerCreating", &json!({})), true, "app app has not started (ContainerCreating)"),
        (app_waits(plain(), "ImagePullBackOff", &json!({})), false, "app app has not started (ImagePullBackOff)"),
        (app_waits(plain(), "CrashLoopBackOff", &failed), false, "app app has not restarted after exit code 3 (CrashLoopBackOff)"),
        (app_waits(plain(), "ContainerCreating", &failed), false, "app app has not restarted after exit code 3 (ContainerCreating)"),
        (plain().policy("OnFailure").ended("app", 50, 40, 2), false, "app app ended with exit code 2 and will restart"),
        (behind, true, "the apps started, and sidecar istio-proxy is not ready"),
    ]);
}

#[test]
fn pod_that_runs() {
    let sql = || {
        let image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0";
        proxy(
            "cloud-sql-proxy",
            image,
            json!({"args": ["--quitquitquit"]}),
        )
    };
    let two = Scenario::new(job(&[app(json!({})), istio(json!({})), sql()]));
    let two = two
        .running("app", 60)
        .running("istio-proxy", 59)
        .running("cloud-sql-proxy", 58);
    let other = proxy("other", "registry.example/other:1", json!({}));
    let apps = Scenario::new(job(&[app(json!({})), other]))
        .running("app", 60)
        .running("other", 9);
    #[rustfmt::skip]
    stands(&[
        (apps.clone(), true, "app app has been running for 1 min 0 s, app other has been running for 9 s"),
        (apps.clone().ended("app", 60, 50, 0), true, "app other has been running for 9 s"),
        (apps.unready("app").unready("other"), false, "app app has been running for 1 min 0 s, app other has been running for 9 s; not ready: app, other"),
        (healthy(), true, "app app has been running for 1 min 0 s; sidecar istio-proxy is ready"),
        (healthy().unready("app"), false, "app app has been running for 1 min 0 s; sidecar istio-proxy is ready; not ready: app"),
        (healthy().unready("app").unready("istio-proxy"), false, "the apps started, and sidecar istio-proxy is not ready; not ready: app"),
        (two, true, "app app has been running for 1 min 0 s; sidecars istio-proxy, cloud-sql-proxy are ready"),
    ]);
}

#[test]
fn slow_start_that_the_startup_probe_allows() {
    let starts = |startup: Value| {
        let probes = json!({"startupProbe": startup, "readinessProbe": {"periodSeconds": 5}});
        let scenario = Scenario::new(job(&[app(probes)])).running("app", 60);
        scenario.unready("app").explain().verdict.healthy
    };
    let huge = u32::MAX;
    for (startup, healthy) in [
        (json!({"periodSeconds": 10, "failureThreshold": 30}), true),
        (json!({"initialDelaySeconds": 31}), true),
        (json!({"initialDelaySeconds": 30}), false),
        (json!({"periodSeconds": 10, "failureThreshold": 7}), true),
        (json!({"periodSeconds": 10, "failureThreshold": 6}), false),
        (
            json!({"periodSeconds": huge, "failureThreshold": huge}),
            true,
        ),
    ] {
        assert_eq!(starts(startup.clone()), healthy, "{startup}");
    }
}

#[test]
fn pod_that_ends() {
    let over = |code: i32| {
        let scenario = healthy().ended("app", 60, 4, code);
        scenario.ended("istio-proxy", 59, 3, 0)
    };
    #[rustfmt::skip]
    stands(&[
        (healthy().ended("app", 60, 4, 0), true, "the apps ended with exit code 0, 4 s ago; istio-proxy still runs"),
        (over(0), true, "the apps ended with exit code 0, 4 s ago; the kubelet is ending the pod"),
        (over(7), false, "the apps ended, not all with exit code 0, 4 s ago; the kubelet is ending the pod"),
        (healthy().reason("Succeeded", ""), true, "the pod ended: Succeeded"),
        (healthy().reason("Failed", "Evicted"), false, "the pod ended: Evicted"),
    ]);
}

#[test]
fn pod_whose_sidecar_lingers() {
    let mut deleted = healthy();
    deleted.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    let of = |name: &str, scenario: &Scenario, detail| {
        let mut scenario = scenario.clone().decided(2, detail, "");
        let newest = scenario.seen.timeline.iter_mut().flatten().next_back();
        newest.unwrap().container = Some(name.to_owned());
        scenario
    };
    let decided = |scenario: &Scenario, detail| of("istio-proxy", scenario, detail);
    let mut held = decided(&deleted, Detail::LingerHeld);
    // The agent that held it is gone, and its holder has released it.
    let obsolete = held.clone();
    held.seen.held_stops = 1;
    let released = decided(&held, Detail::LingerReleased { held_ms: Some(4) });
    let mut both = of("app", &held, Detail::PreStopHeld);
    both.seen.held_stops = 2;
    let of_the_app = decided(&both, Detail::LingerReleased { held_ms: Some(4) });
    let app_stops = of("app", &both, Detail::PreStopReleased { held_ms: Some(4) });
    #[rustfmt::skip]
    stands(&[
        (deleted, true, "the pod is being deleted"),
        (obsolete, true, "the pod is being deleted"),
        (held, true, "the pod is being deleted; the stop signal of istio-proxy waits until the apps have ended"),
        (released, true, "the pod is being deleted"),
        (both, true, "the pod is being deleted; the stop signal of app app waits as usher.dev/pre-stop requests; the stop signal of istio-proxy waits until the apps have ended"),
        (of_the_app, true, "the pod is being deleted; the stop signal of app app waits as usher.dev/pre-stop requests"),
        (app_stops, true, "the pod is being deleted; the stop signal of istio-proxy waits until the apps have ended"),
    ]);
}

#[test]
fn pod_whose_deletion_hangs() {
    let deleted = |ago: u64| {
        let mut scenario = healthy();
        scenario.pod["metadata"]["deletionTimestamp"] = json!(time(ago));
        scenario.pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        scenario
    };
    let held = {
        let mut scenario = deleted(300).decided(330, Detail::LingerHeld, "");
        let entries = scenario.seen.timeline.iter_mut().flatten();
        entries.for_each(|entry| entry.container = Some("istio-proxy".to_owned()));
        scenario
    };
    let ended = deleted(60)
        .ended("app", 60, 30, 0)
        .ended("istio-proxy", 59, 29, 0);
    #[rustfmt::skip]
    stands(&[
        (deleted(59), true, "the pod is being deleted"),
        (deleted(60), false, "the pod should have ended 1 min 0 s ago; still running: app, istio-proxy"),
        (held, false, "the pod should have ended 5 min 0 s ago; still running: app, istio-proxy"),
        (ended, false, "the pod should have ended 1 min 0 s ago"),
    ]);
}
