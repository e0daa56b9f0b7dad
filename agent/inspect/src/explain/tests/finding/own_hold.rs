//! Istio's own hold: its hook, and the evidence that it is missing.

use serde_json::{Value, json};
use usher_core::hold::Released;

use super::{
    Detail, Finding, Id, Mode, Scenario, Severity,
    pods::{ARMED, app, istio, job, released},
};
use crate::explain::{facts::Container, finding::own_hold::waits};

#[test]
fn hook_that_waits_for_the_proxy() {
    for (words, expected) in [
        (&["pilot-agent", "wait"][..], true),
        (
            &[
                "/usr/local/bin/pilot-agent",
                "wait",
                "--timeoutDurationSeconds=5",
            ],
            true,
        ),
        (&["sh", "-c", "pilot-agent wait && date"], true),
        (&["pilot-agent"], false),
        (&["pilot-agent", "request", "GET", "/stats"], false),
        (&["wait"], false),
        (&["sh", "-c", "sleep 5"], false),
        (&[], false),
    ] {
        let proxy = Container {
            post_start: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Container::default()
        };
        assert_eq!(waits(&proxy), expected, "{words:?}");
    }
}

#[test]
fn evidence_of_a_lost_hook() {
    let wanted = "holdApplicationUntilProxyStarts: true";
    let long = |letters: usize| format!("{wanted}\n{:#<1$}", "", letters - wanted.len() - 1);
    let other = json!({"lifecycle": {"postStart": {"exec": {"command": ["date"]}}}});
    let evidence_of = |containers: &[Value], config: &str| {
        let scenario = Scenario::new(job(containers)).annotation("proxy.istio.io/config", config);
        let scenario = scenario.running("app", 60).running("istio-proxy", 60);
        let findings = scenario.explain().findings;
        let lost = findings.into_iter().find(|one| one.id == Id::HoldLost);
        let evidence = lost.unwrap().evidence.into_iter();
        evidence
            .map(|one| format!("{}: {}", one.source, one.message))
            .collect::<Vec<_>>()
    };
    let first = [istio(other.clone()), app(json!({}))];
    let hook = |at: u8| {
        format!("spec.containers[{at}].lifecycle.postStart: date; Istio's own is: pilot-agent wait")
    };
    // A configuration that is longer than a line is shortened to the relevant field.
    for (config, message) in [
        (wanted.to_owned(), wanted.to_owned()),
        (long(80), long(80)),
        (long(81), wanted.to_owned()),
    ] {
        let message = format!("metadata.annotations[proxy.istio.io/config]: {message}");
        assert_eq!(evidence_of(&first, &config), [message, hook(0)]);
    }
    let behind = evidence_of(&[app(json!({})), istio(other)], wanted);
    assert_eq!(
        behind[1..],
        [
            hook(1),
            "spec.containers: app before istio-proxy".to_owned()
        ]
    );
}

#[test]
fn lost_hold_is_a_hint_where_usher_holds_or_the_pod_succeeded() {
    let wait = json!({"lifecycle": {"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}}});
    let lost = |containers: &[Value]| {
        let scenario = Scenario::new(job(containers)).mode(Mode::Enforce);
        let wanted = "holdApplicationUntilProxyStarts: true";
        let scenario = scenario.annotation("proxy.istio.io/config", wanted);
        scenario.running("app", 50).running("istio-proxy", 50)
    };
    let hook = lost(&[istio(json!({})), app(json!({}))]);
    let order = lost(&[app(json!({})), istio(wait)]);
    let armed = |scenario: &Scenario| scenario.clone().decided(55, ARMED, "connections wait");
    let adopted = Detail::HoldAdopted { ports: Vec::new() };
    let ended = |scenario: Scenario, cause| scenario.decided(40, released(cause, 1), "a reason");
    let failed = armed(&order).decided(50, Detail::HoldFailed, "it ended");
    let (error, hint) = (Severity::Error, Severity::Hint);
    #[rustfmt::skip]
    let table = [
        ("not held", hook.clone(), error),
        ("held", armed(&hook), hint),
        ("held until ready", ended(armed(&hook), Released::Ready), hint),
        ("held by the agent before", hook.clone().decided(55, adopted, "held"), hint),
        ("held until the deadline", ended(armed(&hook), Released::Deadline), error),
        ("succeeded", hook.clone().reason("Succeeded", ""), hint),
        ("not held, order", order.clone(), error),
        ("held until ready, order", ended(armed(&order), Released::Ready), hint),
        ("held until the deadline, order", ended(armed(&order), Released::Deadline), error),
        ("hold failed, order", failed, error),
        ("not held, and works", hook.clone().running("app", 601), hint),
        ("not held, and works since just now", hook.clone().running("app", 600), error),
        ("not held, and not ready", hook.running("app", 601).unready("app"), error),
        ("succeeded, order", order.reason("Succeeded", ""), hint),
    ];
    for (what, scenario, severity) in table {
        let findings = scenario.explain().findings;
        let of_hold = |one: &Finding| one.id == Id::HoldLost;
        let finding = findings.into_iter().find(of_hold).unwrap();
        assert_eq!(finding.severity, severity, "{what}");
        let is_held = finding
            .evidence
            .iter()
            .any(|one| one.source.starts_with("timeline"));
        let advises_usher = finding.how.contains("usher.dev/hold=enforce");
        assert!(!(is_held && advises_usher), "{what}: {finding:?}");
    }
}
