//! Findings that follow from a decision of usher.

use serde_json::json;
use usher_core::{decision::timeline::Detail, hold::Released};

use super::{Id, Scenario, healthy};

fn found(scenario: &Scenario, id: Id) -> Option<(String, String)> {
    let findings = scenario.explain().findings;
    let finding = findings.into_iter().find(|one| one.id == id)?;
    Some((finding.problem, finding.how))
}

fn released(cause: Released) -> Detail {
    Detail::HoldReleased {
        cause: Some(cause),
        held_ms: Some(8000),
        connections: Some(1),
    }
}

/// A deleted pod whose app has ended.
fn deleted(decision: Detail) -> Scenario {
    let mut scenario = healthy()
        .ended("app", 60, 5, 0)
        .decided(5, decision, "a reason");
    scenario.pod["spec"]["restartPolicy"] = json!("Always");
    scenario.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    scenario
}

#[test]
fn a_quarantined_pod_is_named_while_it_may_be_one() {
    let quarantined = |ago| healthy().decided(ago, Detail::Quarantined, "stuck");
    let (problem, how) = found(&quarantined(30), Id::Quarantined).unwrap();
    assert!(problem.contains("leaves the pod's network namespace alone"));
    assert!(how.contains("shop/report"), "{how}");
    assert_eq!(found(&quarantined(3601), Id::Quarantined), None);
    let over = quarantined(30).reason("Failed", "Evicted");
    assert_eq!(found(&over, Id::Quarantined), None);
    assert_eq!(found(&healthy(), Id::Quarantined), None);
}

#[test]
fn an_unknown_readiness_is_a_hint() {
    let failed = healthy().decided(30, released(Released::ProbeFailed), "a reason");
    let (problem, how) = found(&failed, Id::ReadinessUnknown).unwrap();
    assert!(problem.contains("istio-proxy is ready"), "{problem}");
    assert_eq!(how, "kubectl -n shop logs report -c istio-proxy");
    let disabled = failed
        .clone()
        .annotation("status.sidecar.istio.io/port", "0");
    let (_, how) = found(&disabled, Id::ReadinessUnknown).unwrap();
    assert!(how.ends_with("status.sidecar.istio.io/port: null"), "{how}");
    let ready = failed.decided(10, released(Released::Ready), "a reason");
    assert_eq!(found(&ready, Id::ReadinessUnknown), None);
}

#[test]
fn a_sidecar_of_a_deleted_pod_waits_for_the_kubelet() {
    let left = deleted(Detail::LeftToKubelet);
    let (problem, _) = found(&left, Id::LeftToKubelet).unwrap();
    assert!(
        problem.contains("the kubelet ends istio-proxy"),
        "{problem}"
    );
    let would = deleted(Detail::WouldQuitOnDeletion);
    let (_, how) = found(&would, Id::LeftToKubelet).unwrap();
    assert_eq!(
        how,
        "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite"
    );
    assert_eq!(
        found(&deleted(Detail::QuitOnDeletion), Id::LeftToKubelet),
        None
    );
    let mut stays = left;
    stays.pod["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    assert_eq!(found(&stays, Id::LeftToKubelet), None);
}
