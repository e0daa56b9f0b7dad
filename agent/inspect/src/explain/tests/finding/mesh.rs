//! Pods of a mesh: ports, probes, processes.

use serde_json::{Value, json};
use usher_core::recipe::Version;

use super::{
    Id, OnTerm, Scenario, Severity, healthy, only,
    pods::{app, istio, job, proxy},
    troubles,
};

#[test]
fn port_with_a_misleading_name() {
    let ports =
        |name: &str, number: u16| json!({"ports": [{"name": name, "containerPort": number}]});
    let scenario = |ports: Value| {
        let scenario = Scenario::new(job(&[app(ports), istio(json!({}))]));
        scenario.running("app", 60).running("istio-proxy", 59)
    };
    let detected = scenario(ports("web-http", 8080)).explain();
    assert!(detected.verdict.healthy);
    let hint = &detected.findings[0];
    assert_eq!((hint.id, hint.severity), (Id::PortName, Severity::Hint));
    assert!(hint.how.contains("http-web"), "{hint:?}");
    only(
        &scenario(ports("http-db", 3306)),
        Id::PortName,
        &["MySQL", "ports[3306].name", "not on the node"],
    );
    assert_eq!(troubles(&scenario(ports("http-web", 8080))), [""; 0]);
    let outside = Scenario::new(job(&[app(ports("web-http", 8080))])).running("app", 60);
    assert_eq!(
        troubles(&outside),
        [""; 0],
        "without a mesh the name has no effect"
    );
}

#[test]
fn probe_that_cannot_pass_the_mesh() {
    let plain =
        json!({"readinessProbe": {"httpGet": {"path": "/ok", "port": 8080}, "periodSeconds": 1}});
    let scenario = |container: Value, proxy: Value| {
        let scenario = Scenario::new(job(&[app(container), istio(proxy)]));
        scenario.running("app", 60).running("istio-proxy", 59)
    };
    let key = "sidecar.istio.io/rewriteAppHTTPProbers";
    let failing = scenario(plain.clone(), json!({}))
        .unready("app")
        .annotation(key, "false");
    only(
        &failing,
        Id::ProbeLost,
        &["readinessProbe.httpGet.port", "rewriteAppHTTPProbers"],
    );
    assert_eq!(
        troubles(&scenario(plain.clone(), json!({}))),
        [""; 0],
        "it succeeds"
    );
    let ports = "traffic.sidecar.istio.io/excludeInboundPorts";
    let excluded = scenario(plain.clone(), json!({}))
        .unready("app")
        .annotation(ports, "9090, 8080");
    assert_eq!(troubles(&excluded), [""; 0], "the mesh does not see it");
    let silent = scenario(plain.clone(), json!({}))
        .unready("app")
        .listening(&[9090]);
    assert_eq!(troubles(&silent), [""; 0], "no listener");
    let young = scenario(plain, json!({})).running("app", 1).unready("app");
    assert_eq!(troubles(&young), [""; 0], "it has had no time");
    let copied =
        json!({"livenessProbe": {"httpGet": {"path": "/app-health/app/livez", "port": 15020}}});
    let copy = scenario(copied.clone(), json!({})).killed("app", 137);
    only(
        &copy,
        Id::ProbeLost,
        &["/app-health/app/livez", "ISTIO_KUBE_APP_PROBERS"],
    );
    let known = json!({"env": [{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{\"/app-health/app/livez\":{}}"}]});
    assert_eq!(
        troubles(&scenario(copied, known).killed("app", 137)),
        [""; 0],
        "the app itself fails it"
    );
    let exec = json!({"readinessProbe": {"exec": {"command": ["false"]}}});
    assert_eq!(troubles(&scenario(exec, json!({})).unready("app")), [""; 0]);
}

#[test]
fn sidecar_below_a_shell() {
    let words = ["/bin/sh", "-c", "sleep 1 && pilot-agent proxy sidecar"];
    let shell = |name: &str, on_term| {
        let shell = healthy().process("istio-proxy", 1, name, &words, on_term);
        shell.process(
            "istio-proxy",
            7,
            "pilot-agent",
            &["pilot-agent", "proxy"],
            OnTerm::Handles,
        )
    };
    only(
        &shell("sh", OnTerm::Default),
        Id::ShellIsPid1,
        &["SigCgt has no SIGTERM", "exec pilot-agent", "pid 7"],
    );
    only(
        &shell("dash", OnTerm::Ignores),
        Id::ShellIsPid1,
        &["SigIgn has SIGTERM"],
    );
    assert_eq!(
        troubles(&shell("sh", OnTerm::Handles)),
        [""; 0],
        "it has a trap"
    );
    let agent = healthy().process(
        "istio-proxy",
        1,
        "pilot-agent",
        &["pilot-agent"],
        OnTerm::Default,
    );
    assert_eq!(troubles(&agent), [""; 0]);
    let apps = healthy().process("app", 1, "sh", &["sh"], OnTerm::Default);
    assert_eq!(troubles(&apps), [""; 0], "an app may do as it likes");
    let shared = shell("sh", OnTerm::Default).shared();
    assert_eq!(
        troubles(&shared),
        [""; 0],
        "no sidecar is the first process there"
    );
}

#[test]
fn proxy_that_waits_for_a_cloud() {
    let scenario = healthy().connecting(1337, [169, 254, 169, 254]);
    only(
        &scenario,
        Id::MetadataWait,
        &["CLOUD_PLATFORM", "SYN_SENT", "absent"],
    );
    let apps = healthy().connecting(0, [169, 254, 169, 254]);
    assert_eq!(troubles(&apps), [""; 0], "the app asks");
    assert_eq!(
        troubles(&healthy().connecting(1337, [10, 0, 0, 1])),
        [""; 0]
    );
}

#[test]
fn native_sidecar_that_is_possible() {
    let scenario = |kubelet: u32, image: &str| {
        let image = format!("docker.io/istio/proxyv2:{image}");
        let proxy = proxy("istio-proxy", &image, json!({"args": ["proxy", "sidecar"]}));
        let scenario = Scenario::new(job(&[app(json!({})), proxy]));
        let scenario = scenario.running("app", 60).running("istio-proxy", 59);
        scenario.kubelet(Version {
            major: 1,
            minor: kubelet,
        })
    };
    let ids = |scenario: &Scenario| {
        let findings = scenario.explain().findings;
        let all: Vec<(Id, Severity)> = findings.iter().map(|one| (one.id, one.severity)).collect();
        all
    };
    let hint = [(Id::NativePossible, Severity::Hint)];
    assert_eq!(ids(&scenario(33, "1.27.0")), hint);
    assert_eq!(ids(&scenario(29, "1.20.1-distroless")), hint);
    for (kubelet, image) in [(28, "1.27.0"), (33, "1.18.2"), (33, "latest")] {
        assert_eq!(ids(&scenario(kubelet, image)), [], "{kubelet} {image}");
    }
    let mut other = scenario(33, "1.27.0");
    other.seen.kubelet = None;
    assert_eq!(ids(&other), []);
    other.seen.native_elsewhere = Some("shop/other".to_owned());
    assert_eq!(ids(&other), hint);
    let opted_out = scenario(33, "1.27.0").annotation("sidecar.istio.io/nativeSidecar", "false");
    assert!(opted_out.explain().findings[0].remedy.contains("remove it"));
    assert!(opted_out.explain().verdict.healthy, "a hint is no trouble");
}
