//! Apps that start before their proxy.

use serde_json::{Value, json};
use usher_core::hold::Released;

use super::{
    Id, Scenario, healthy, only,
    pods::{ARMED, app, istio, job, released, would_hold},
    troubles,
};

#[test]
fn app_that_began_before_its_proxy() {
    let scenario = healthy().ended("app", 60, 59, 1).running("istio-proxy", 59);
    // With OnFailure the app restarts, so the sidecar must keep running.
    let scenario = scenario.policy("OnFailure");
    let finding = only(
        &scenario,
        Id::StartedBeforeProxy,
        &["exit code 1", "usher.dev/hold=enforce"],
    );
    assert_eq!(finding.evidence[0].source, "status.containerStatuses[app]");
    // Within one second, the order of the spec decides.
    let same = healthy()
        .policy("OnFailure")
        .ended("app", 60, 60, 1)
        .running("istio-proxy", 60);
    only(
        &same,
        Id::StartedBeforeProxy,
        &["the app comes first in the spec"],
    );
    // The second run succeeded, so the app did its work twice.
    let done = healthy()
        .policy("OnFailure")
        .ended("app", 60, 59, 1)
        .restarted("app", 58);
    let done = done.ended("app", 58, 1, 0);
    only(&done, Id::StartedBeforeProxy, &["exit code 1"]);
    // The app restarted and runs.
    let again = healthy()
        .policy("Always")
        .ended("app", 60, 59, 1)
        .restarted("app", 58)
        .running("istio-proxy", 59);
    only(&again, Id::StartedBeforeProxy, &["app"]);
}

#[test]
fn app_that_failed_for_another_reason() {
    let late = healthy()
        .policy("Always")
        .ended("app", 60, 2, 1)
        .restarted("app", 1);
    assert_eq!(troubles(&late), [""; 0], "it ran for a minute");
    let after = healthy()
        .policy("Always")
        .ended("app", 20, 19, 1)
        .restarted("app", 18);
    assert_eq!(troubles(&after), [""; 0], "its proxy had run for 40 s");
    let held = healthy()
        .policy("Always")
        .ended("app", 60, 59, 1)
        .restarted("app", 58);
    let held = held.decided(61, ARMED, "connections wait");
    assert_eq!(troubles(&held), [""; 0], "its connections waited");
}

#[test]
fn connections_that_usher_saw_refused() {
    let reason = "2 connections were refused";
    let scenario = healthy().decided(58, would_hold(2), reason);
    only(
        &scenario,
        Id::StartedBeforeProxy,
        &["timeline", "2 connections were refused"],
    );
    // The app restarted later, so its first start is unknown.
    let failed = healthy()
        .policy("Always")
        .ended("app", 45, 40, 1)
        .restarted("app", 20);
    let failed = failed.decided(39, would_hold(2), reason);
    only(
        &failed,
        Id::StartedBeforeProxy,
        &["exit code 1, before the proxy was ready"],
    );
    let none = healthy().decided(58, would_hold(0), "no connection came");
    assert_eq!(troubles(&none), [""; 0]);
    // A longer deadline helps a proxy that is ready now. The status of a proxy without a probe does not show that.
    let late = |probe: Value| {
        let proxy = istio(json!({"readinessProbe": probe}));
        let scenario = Scenario::new(job(&[app(json!({})), proxy]));
        let scenario = scenario.running("app", 60).running("istio-proxy", 59);
        scenario.decided(
            29,
            released(Released::Deadline, 1),
            "1 connection had waited",
        )
    };
    let probe = json!({"httpGet": {"port": 15021, "path": "/healthz/ready"}});
    only(
        &late(probe),
        Id::StartedBeforeProxy,
        &["hold-deadline: \\\"2m\\\""],
    );
    let finding = only(&late(json!(null)), Id::StartedBeforeProxy, &["logs report"]);
    assert!(!finding.how.contains("hold-deadline"), "{finding:?}");
}

#[test]
fn istios_hold_that_is_lost() {
    let wanted = "holdApplicationUntilProxyStarts: true";
    let wait = json!({"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}});
    let other = json!({"postStart": {"exec": {"command": ["/bin/true"]}}});
    let scenario = |containers: &[Value]| {
        let scenario = Scenario::new(job(containers)).annotation("proxy.istio.io/config", wanted);
        scenario.running("app", 60).running("istio-proxy", 60)
    };
    let good = scenario(&[istio(json!({"lifecycle": wait})), app(json!({}))]);
    assert_eq!(troubles(&good), [""; 0]);
    let overridden = scenario(&[istio(json!({"lifecycle": other})), app(json!({}))]);
    let finding = only(
        &overridden,
        Id::HoldLost,
        &["/bin/true", "pilot-agent, wait"],
    );
    assert_eq!(
        finding.evidence[1].source,
        "spec.containers[0].lifecycle.postStart"
    );
    let behind = scenario(&[app(json!({})), istio(json!({"lifecycle": wait}))]);
    only(&behind, Id::HoldLost, &["app comes before istio-proxy"]);
    // The app's failure is evidence of the same finding.
    let refused = overridden.policy("OnFailure").ended("app", 60, 60, 1);
    let finding = only(&refused, Id::HoldLost, &["/bin/true"]);
    assert!(
        finding
            .evidence
            .iter()
            .any(|one| one.message.contains("exit code 1")),
        "{finding:?}"
    );
    // The mesh's own setting, as the injector records it.
    let env =
        json!([{"name": "PROXY_CONFIG", "value": "{\"holdApplicationUntilProxyStarts\":true}\n"}]);
    let mesh = Scenario::new(job(&[istio(json!({"env": env})), app(json!({}))]));
    only(
        &mesh.running("app", 60).running("istio-proxy", 60),
        Id::HoldLost,
        &["env[PROXY_CONFIG]", "absent"],
    );
}
