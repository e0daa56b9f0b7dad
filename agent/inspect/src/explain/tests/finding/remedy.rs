//! The exact remedies for a sidecar's exit code and a pod's deadline.

use serde_json::{Value, json};

use super::{Finding, Id, Scenario, healthy};

fn found(scenario: &Scenario, id: Id) -> Option<Finding> {
    let findings = scenario.explain().findings;
    findings.into_iter().find(|one| one.id == id)
}

#[track_caller]
fn assert_fix(scenario: &Scenario, id: Id, remedy: &str, how: &str) {
    let finding = found(scenario, id).unwrap();
    assert_eq!((&finding.remedy[..], &finding.how[..]), (remedy, how));
}

#[test]
fn exit_code_fix_changes_its_source() {
    let signal = (
        "A signal ended the sidecar. Enable usher to terminate it by request, which ends it with exit code 0.",
        "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite",
    );
    let memory = (
        "Raise the sidecar's memory limit.",
        "resources:\n  limits:\n    memory: 256Mi    # of istio-proxy",
    );
    let log = (
        "Make the sidecar end with exit code 0; its log has the cause.",
        "kubectl -n shop logs report -c istio-proxy",
    );
    for (code, reason, (remedy, how)) in [
        (137, "OOMKilled", memory),
        (137, "Error", signal),
        (143, "Error", signal),
        (1, "Error", log),
    ] {
        let mut scenario = healthy().ended("app", 50, 10, 0);
        scenario = scenario.ended("istio-proxy", 51, 9, code);
        let state: &mut Value = &mut scenario.pod["status"]["containerStatuses"][1]["state"];
        state["terminated"]["reason"] = json!(reason);
        assert_fix(&scenario, Id::ExitCodeSpoils, remedy, how);
    }
}

/// The pod is 60 s old.
#[test]
fn deadline_is_near_when_a_fifth_is_left() {
    for (seconds, expected) in [(61, true), (75, true), (76, false)] {
        let near = found(&healthy().deadline(seconds), Id::DeadlineNear);
        assert_eq!(near.is_some(), expected, "{seconds}");
    }
}

#[test]
fn deadline_fix_is_a_longer_deadline_without_a_waiting_sidecar() {
    let time = "Raise activeDeadlineSeconds, or find what delays the pod.";
    let mended = |scenario: &Scenario, remedy: &str, how: &str| {
        assert_fix(scenario, Id::DeadlineNear, remedy, how);
    };
    let twice = |seconds: u64| format!("spec:\n  activeDeadlineSeconds: {seconds}");
    mended(&healthy().deadline(65), time, &twice(130));
    mended(
        &healthy().deadline(65).ended("app", 60, 2, 0),
        "Enable usher to terminate the sidecar on this node.",
        "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite",
    );
    let exceeded = healthy().deadline(50).reason("Failed", "DeadlineExceeded");
    mended(&exceeded, time, &twice(100));
    // The app ended too late for usher to complete the pod.
    mended(&exceeded.ended("app", 60, 12, 0), time, &twice(100));
}
