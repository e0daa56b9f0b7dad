//! The conditions of a failing probe, and the text of its finding.

use serde_json::{Value, json};

use super::{
    Finding, Id, Scenario,
    pods::{app, istio, job},
    troubles,
};

fn http() -> Value {
    json!({"httpGet": {"path": "/ok", "port": 8080}, "periodSeconds": 5})
}

/// An app with these probes next to Istio's proxy, which has not rewritten them.
fn scenario(probes: Value) -> Scenario {
    let scenario = Scenario::new(job(&[app(probes), istio(json!({}))]));
    scenario.running("app", 60).running("istio-proxy", 59)
}

/// The same pod after the app ended with this code. The kubelet delays the restart.
fn backs_off(probes: Value, code: i32) -> Scenario {
    let mut scenario = scenario(probes).killed("app", code);
    scenario.pod["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "CrashLoopBackOff"}});
    scenario.unready("app")
}

#[test]
fn probe_that_has_had_its_time() {
    let live = || json!({"livenessProbe": http()});
    let startup = || json!({"startupProbe": http()});
    let ready = || json!({"readinessProbe": http()});
    let starting =
        json!({"startupProbe": {"exec": {"command": ["false"]}}, "readinessProbe": http()});
    let again = |code| scenario(live()).killed("app", code);
    // The kubelet also reports 137 for a container that it lost, and counts no restart while it deletes the pod.
    let mut lost = again(137);
    lost.pod["status"]["containerStatuses"][0]["restartCount"] = json!(0);
    let mut full = again(137);
    full.pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] =
        json!("OOMKilled");
    let long_ago = |scenario: Scenario| {
        let restarted = scenario.ended("app", 900, 700, 137).restarted("app", 699);
        restarted.policy("Always")
    };
    let mut waits = long_ago(scenario(live()));
    waits.pod["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let lost_probe = ["probe-lost"].as_slice();
    #[rustfmt::skip]
    let table = [
        ("ready", scenario(live()), [].as_slice()),
        ("unready", scenario(startup()).unready("app"), lost_probe),
        ("unready for two periods", scenario(startup()).running("app", 10).unready("app"), lost_probe),
        ("unready for less", scenario(startup()).running("app", 9).unready("app"), &[]),
        ("not unready by liveness", scenario(live()).unready("app"), &[]),
        ("killed by SIGKILL", again(137), lost_probe),
        ("killed for its memory", full, &[]),
        ("killed long ago", long_ago(scenario(live())), &[]),
        ("killed long ago, still to be started", waits.unready("app"), lost_probe),
        ("killed by SIGTERM", again(143), lost_probe),
        ("failed by itself", again(1), &[]),
        ("killed, never started again", lost, &[]),
        ("killed, to be started", backs_off(live(), 137), lost_probe),
        ("failed, to be started", backs_off(live(), 1), &[]),
        ("not killed by readiness", backs_off(ready(), 137), &[]),
        ("killed by something else, ready again", scenario(ready()).killed("app", 137), &[]),
        ("readiness not probed yet", scenario(starting).unready("app"), &[]),
    ];
    for (what, scenario, expected) in table {
        let lost: Vec<&str> = troubles(&scenario);
        assert_eq!(lost, expected, "{what}");
    }
}

#[test]
fn text_of_a_failing_probe() {
    let text_of = |scenario: &Scenario| {
        let mut findings = scenario.explain().findings.into_iter();
        let Finding {
            problem, evidence, ..
        } = findings.find(|one| one.id == Id::ProbeLost).unwrap();
        let last = evidence.last().unwrap();
        (problem, format!("{}: {}", last.source, last.message))
    };
    let because = "fails because Istio did not rewrite it: the kubelet has no certificate for a mesh with strict mTLS";
    assert_eq!(
        text_of(&scenario(json!({"readinessProbe": http()})).unready("app")),
        (
            format!("the readinessProbe of app {because}"),
            "status.containerStatuses[app]: ready false, since 00:09:05".to_owned()
        )
    );
    assert_eq!(
        text_of(&scenario(json!({"livenessProbe": http()})).killed("app", 137)),
        (
            format!("the livenessProbe of app {because}"),
            "status.containerStatuses[app]: restartCount 1, ready true".to_owned()
        )
    );
}
