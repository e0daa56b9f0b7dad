//! One broken pod for each finding: its explanation has this finding and no other.

mod change;
mod explanation;
mod finding;
mod pods;
mod property;
mod scenarios;
mod stuck;
mod timeline;
mod verdict;

use serde_json::json;
use usher_core::{decision::timeline::Detail, settings::mode::Mode};

use self::pods::{Scenario, app, istio, job};
use crate::explain::*;

/// The names of a pod's problems.
fn troubles(scenario: &Scenario) -> Vec<&'static str> {
    let findings = scenario.explain().findings;
    let troubles = findings.into_iter().filter(|one| one.severity.is_trouble());
    troubles.map(|finding| finding.id.as_str()).collect()
}

#[track_caller]
fn only(scenario: &Scenario, id: Id, words: &[&str]) -> Finding {
    assert_eq!(
        troubles(scenario),
        [id.as_str()],
        "{:#?}",
        scenario.explain()
    );
    let explanation = scenario.explain();
    assert!(!explanation.verdict.healthy);
    let finding = explanation
        .findings
        .into_iter()
        .find(|one| one.id == id)
        .unwrap();
    let text = format!("{finding:?}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    assert!(!finding.evidence.is_empty() && !finding.remedy.is_empty());
    finding
}

/// A Job's pod with Istio's proxy after its app; both run, both are ready.
fn healthy() -> Scenario {
    Scenario::new(job(&[app(json!({})), istio(json!({}))]))
        .running("app", 60)
        .running("istio-proxy", 59)
}

#[test]
fn healthy_pod_has_no_findings() {
    for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
        let scenario = healthy().mode(mode);
        let explanation = scenario.explain();
        assert_eq!(troubles(&scenario), [""; 0], "{explanation:#?}");
        assert!(explanation.verdict.healthy, "{explanation:#?}");
    }
    let native = Scenario::new(pods::native(&[app(json!({}))]));
    let native = native.running("app", 50).running("istio-proxy", 60);
    assert_eq!(native.explain().findings, []);
    let plain = Scenario::new(job(&[app(json!({}))])).running("app", 60);
    assert!(plain.explain().verdict.healthy);
    let over = healthy()
        .ended("app", 40, 10, 0)
        .ended("istio-proxy", 39, 9, 0);
    assert_eq!(troubles(&over), [""; 0]);
}

#[test]
fn explanation_has_everything() {
    let scenario = healthy()
        .ended("app", 60, 30, 0)
        .decided(29, Detail::WouldQuit, "observe mode");
    let explanation = scenario.explain();
    let roles: Vec<(&str, &str)> = explanation
        .containers
        .iter()
        .map(|one| (&one.name[..], one.role.into_str()))
        .collect();
    assert_eq!(roles, [("app", "app"), ("istio-proxy", "sidecar")]);
    assert_eq!(explanation.containers[1].recipe.as_deref(), Some("istio"));
    let shown: Vec<&str> = explanation
        .timeline
        .iter()
        .map(|one| &one.what[..])
        .collect();
    assert_eq!(
        shown,
        [
            "created",
            "accepted",
            "started",
            "started",
            "ended",
            "would-quit"
        ]
    );
    let ended = &explanation.timeline[4];
    assert_eq!((ended.took_ms, ended.from), (Some(30_000), Origin::Kubelet));
    assert_eq!(
        explanation.verdict.message,
        "the apps ended with exit code 0, 30 s ago; istio-proxy still runs"
    );
    assert!(
        explanation.changes[0]
            .when
            .contains("usher.dev/quit=enforce"),
        "{:?}",
        explanation.changes
    );
    let enforced = healthy().mode(Mode::Enforce).explain();
    assert_eq!(enforced.changes[0].when, "app ends for good");
    assert!(
        enforced.changes[0]
            .then
            .contains("POST :15020/quitquitquit"),
        "{:?}",
        enforced.changes
    );
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["findings"][0]["id"], "sidecar-stays");
    assert_eq!(json["restartPolicy"], "Never");
    let read: Explanation = serde_json::from_value(json).unwrap();
    assert_eq!(read, explanation);
}
