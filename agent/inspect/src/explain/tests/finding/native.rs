//! Pods that could have a native sidecar.

use serde_json::json;
use usher_core::recipe::Version;

use super::{
    Id, Scenario, healthy,
    pods::{app, job, native, proxy},
};

#[test]
fn native_sidecar_is_recommended_only_where_it_is_possible() {
    let kubelet = |scenario: Scenario| {
        scenario.kubelet(Version {
            major: 1,
            minor: 33,
        })
    };
    let native = Scenario::new(native(&[app(json!({}))]));
    let native = native.running("istio-proxy", 60).running("app", 50);
    let tagged = |tag: &str| {
        let image = format!("docker.io/istio/proxyv2:{tag}");
        let proxy = proxy("istio-proxy", &image, json!({}));
        let scenario = Scenario::new(job(&[app(json!({})), proxy]));
        scenario.running("app", 60).running("istio-proxy", 59)
    };
    let by_istiod = "kubectl -n istio-system set env deployment/istiod ENABLE_NATIVE_SIDECARS=true";
    let by_annotation = "metadata:\n  annotations:\n    sidecar.istio.io/nativeSidecar: \"true\"";
    for (scenario, how) in [
        (tagged("1.18.7"), None),
        (tagged("1.19.0"), Some(by_istiod)),
        (tagged("1.23.4"), Some(by_istiod)),
        (tagged("1.24.0"), Some(by_annotation)),
        (native, None),
        (healthy().reason("Failed", "Evicted"), None),
    ] {
        let findings = kubelet(scenario.clone()).explain().findings;
        let found = findings.first().map(|one| &one.how[..]);
        assert_eq!(found, how, "{}", scenario.pod);
    }
}

#[test]
fn a_native_sidecar_is_not_one_that_usher_would_terminate() {
    let mut helper = app(json!({}));
    helper["name"] = json!("helper");
    let scenario = Scenario::new(native(&[app(json!({})), helper]))
        .ended("app", 60, 30, 0)
        .running("helper", 60)
        .running("istio-proxy", 60);
    let finding = &scenario.explain().findings[0];
    assert_eq!(finding.id, Id::UnknownHelper);
    assert!(!finding.problem.contains("istio-proxy"), "{finding:?}");
}
