//! The evidence that a sidecar's endpoint is off, and the text of its finding.

use serde_json::{Value, json};

use super::{
    Finding, Id, Mode, Scenario, Severity,
    pods::{app, job, proxy},
};

const ISTIO: &str = "registry.example/istio/proxyv2:1.26.2";

/// A Job's pod with a running app and sidecar.
fn scenario(name: &str, image: &str, more: Value) -> Scenario {
    let scenario = Scenario::new(job(&[app(json!({})), proxy(name, image, more)]));
    scenario.running("app", 60).running(name, 59)
}

fn vault() -> Scenario {
    scenario("vault-agent", "hashicorp/vault:1.17.2", json!({}))
}

fn linkerd(tag: &str, more: Value) -> Scenario {
    scenario(
        "linkerd-proxy",
        &format!("cr.l5d.io/linkerd/proxy:{tag}"),
        more,
    )
}

fn found(scenario: &Scenario) -> Option<Finding> {
    let mut findings = scenario.explain().findings.into_iter();
    findings.find(|one| one.id == Id::QuitEndpointOff)
}

#[test]
fn evidence_of_an_endpoint_that_is_off() {
    let istio = |args: Value| scenario("istio-proxy", ISTIO, json!({"args": args}));
    let variable = |value: &str| {
        let name = "LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED";
        linkerd(
            "edge-25.8.1",
            json!({"env": [{"name": name, "value": value}]}),
        )
    };
    let kuma = |tag: &str| {
        let image = format!("kumahq/kuma-dp:{tag}");
        scenario("kuma-sidecar", &image, json!({}))
    };
    let status_port = "status.sidecar.istio.io/port";
    let quit = "vault.hashicorp.com/agent-enable-quit";
    let shutdown = "config.linkerd.io/proxy-admin-shutdown";
    let vault_says = "metadata.annotations[vault.hashicorp.com/agent-enable-quit]";
    let linkerd_says = "spec.containers[1].env[LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED]";
    let by_default = Some((linkerd_says, "absent; off by default from 2.16 on"));
    #[rustfmt::skip]
    let table = [
        (istio(json!(["proxy", "sidecar", "--statusPort", "0"])), Some(("spec.containers[1]", "--statusPort 0"))),
        (istio(json!(["proxy", "sidecar", "--statusPort", "15020"])), None),
        (istio(json!(["proxy", "sidecar"])).annotation(status_port, "0"), Some(("metadata.annotations[status.sidecar.istio.io/port]", "\"0\""))),
        (istio(json!(["proxy", "sidecar"])).annotation(status_port, "15020"), None),
        (vault(), Some((vault_says, "absent; off by default"))),
        (vault().annotation(quit, "false"), Some((vault_says, "false"))),
        (vault().annotation(quit, "true"), None),
        (kuma("2.14.0"), Some(("spec.containers[1].image", "kumahq/kuma-dp:2.14.0; its admin interface is a Unix socket from 2.14 on"))),
        (kuma("2.13.1"), None),
        (variable("true"), None),
        (variable("false"), Some((linkerd_says, "false"))),
        // The proxy reads its variable. The annotation may have been added later.
        (variable("true").annotation(shutdown, "disabled"), None),
        (linkerd("edge-25.8.1", json!({})).annotation(shutdown, "disabled"), Some(("metadata.annotations[config.linkerd.io/proxy-admin-shutdown]", "disabled"))),
        (linkerd("stable-2.14.10", json!({})), None),
        (linkerd("stable-2.16.0", json!({})), by_default),
        (linkerd("stable-2.17.1", json!({})), by_default),
        // Tags of Linkerd's components and of third-party builds are not versions of Linkerd.
        (linkerd("1.4.2", json!({})), by_default),
        (linkerd("edge-25.8.1", json!({})), by_default),
    ];
    for (scenario, expected) in table {
        let found = found(&scenario);
        let evidence = found.map(|found| found.evidence[0].clone());
        let evidence = evidence
            .as_ref()
            .map(|one| (&one.source[..], &one.message[..]));
        assert_eq!(evidence, expected, "{}", scenario.pod);
    }
}

#[test]
fn remaining_fixes_are_listed_when_usher_does_not_act() {
    let on = "Enable the endpoint by the pod's annotation.";
    let or_usher = "Enable the endpoint by the pod's annotation. Or enable usher to end it by SIGTERM to vault: \
                    kubectl annotate node node-1 usher.dev/quit=enforce --overwrite";
    let mut unknown = vault();
    unknown.seen.modes = None;
    for (scenario, remedy) in [
        (vault().mode(Mode::Observe), or_usher),
        (vault().mode(Mode::Off), or_usher),
        (unknown, or_usher),
        (vault().mode(Mode::Enforce), on),
    ] {
        let found = found(&scenario).unwrap();
        assert_eq!(found.severity, Severity::Hint);
        assert_eq!(
            found.problem,
            "sidecar vault-agent has no quit endpoint (POST /agent/v1/quit is off); SIGTERM to vault remains"
        );
        assert_eq!(found.remedy, remedy, "{:?}", scenario.seen.modes);
        assert_eq!(
            found.how,
            "metadata:\n  annotations:\n    vault.hashicorp.com/agent-enable-quit: \"true\""
        );
    }
}
