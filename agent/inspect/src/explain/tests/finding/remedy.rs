//! The exact remedies for a sidecar's exit code, a pod's deadline and a limited agent.

use serde_json::{Value, json};
use usher_core::{admin::Modes, settings::mode::Limit};

use super::{
    Detail, Finding, Id, Mode, Scenario, Severity, healthy,
    pods::{app, istio, job, known, proxy},
};

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
        assert_fix(&scenario, Id::NonzeroExitCode, remedy, how);
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
    let repaired = |scenario: &Scenario, remedy: &str, how: &str| {
        assert_fix(scenario, Id::DeadlineNear, remedy, how);
    };
    let twice = |seconds: u64| format!("spec:\n  activeDeadlineSeconds: {seconds}");
    repaired(&healthy().deadline(65), time, &twice(130));
    repaired(
        &healthy().deadline(65).ended("app", 60, 2, 0),
        "Enable usher to terminate the sidecar on this node.",
        "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite",
    );
    // Every container ended.
    let over = healthy().deadline(65).ended("app", 60, 2, 0);
    repaired(&over.ended("istio-proxy", 59, 1, 0), time, &twice(130));
    let exceeded = healthy().deadline(50).reason("Failed", "DeadlineExceeded");
    repaired(&exceeded, time, &twice(100));
    // The app ended too late for usher to complete the pod.
    repaired(&exceeded.ended("app", 60, 12, 0), time, &twice(100));
}

/// A pod near its deadline, whose app ended. It has a sidecar and a container that ends by itself.
fn near_its_end() -> Scenario {
    let image = "registry.example/gcs-fuse-csi-driver-sidecar-mounter:v1.4.1";
    let fuse = proxy("gke-gcsfuse-sidecar", image, json!({}));
    let mut pod = job(&[fuse, app(json!({})), istio(json!({}))]);
    pod["metadata"]["annotations"] = json!({"gke-gcsfuse/volumes": "true"});
    Scenario::new(pod)
        .running("gke-gcsfuse-sidecar", 60)
        .running("istio-proxy", 60)
        .ended("app", 60, 2, 0)
        .deadline(65)
}

#[test]
fn deadline_fix_ends_the_containers_that_remain() {
    let both = "istio-proxy, gke-gcsfuse-sidecar";
    let enforced = near_its_end().mode(Mode::Enforce);
    let gave_up = enforced.clone().decided(1, Detail::GaveUp, "every step");
    let proxy_ended = enforced.ended("istio-proxy", 60, 1, 0);
    let mut loops = near_its_end().policy("OnFailure");
    loops = loops
        .ended("istio-proxy", 60, 1, 255)
        .restarted("istio-proxy", 0);
    let statuses = &mut loops.pod["status"]["containerStatuses"];
    statuses[1]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let opted_out = near_its_end().annotation("usher.dev/quit", "false");
    #[rustfmt::skip]
    let table = [
        (near_its_end(), both, "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite"),
        (gave_up, both, "kubectl -n shop delete pod report"),
        (opted_out, both, "metadata:\n  annotations:\n    usher.dev/quit: \"true\""),
        (loops, both, "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite"),
        (proxy_ended, "gke-gcsfuse-sidecar", "kubectl -n shop logs report -c gke-gcsfuse-sidecar"),
    ];
    for (scenario, remaining, how) in table {
        let finding = found(&scenario, Id::DeadlineNear).unwrap();
        let problem = "every app ended, and in 5 s activeDeadlineSeconds fails the pod, which waits for the end of";
        assert_eq!(finding.problem, format!("{problem} {remaining}"));
        assert_eq!((finding.severity, &finding.how[..]), (Severity::Error, how));
    }
}

/// The annotation of the Node would change nothing.
#[test]
fn limited_agent_is_corrected_where_it_would_be_enabled() {
    let hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}}});
    let order = Scenario::new(job(&[app(json!({})), istio(hook)]));
    let order = order.running("app", 50).running("istio-proxy", 50);
    let vault = proxy("vault-agent", "hashicorp/vault:1.17.2", json!({}));
    let vault = Scenario::new(job(&[app(json!({})), vault])).running("app", 60);
    let vault = vault.running("vault-agent", 59);
    let early = healthy().policy("OnFailure").ended("app", 60, 59, 1);
    let signal = healthy()
        .ended("app", 50, 10, 0)
        .ended("istio-proxy", 51, 9, 143);
    let mut deleted = healthy().policy("Always").ended("app", 60, 5, 0);
    deleted.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    let deleted = deleted.decided(5, Detail::WouldQuitOnDeletion, "observe mode");
    let limited = "orrect why usher only observes on this node: the configuration is invalid";
    let check = "usher config, and correct the ConfigMap";
    let endpoint = "metadata:\n  annotations:\n    vault.hashicorp.com/agent-enable-quit: \"true\"";
    #[rustfmt::skip]
    let table = [
        (early, Id::StartedBeforeProxy, format!("C{limited}."), check),
        (order, Id::HoldLost, format!("Put the proxy first in the pod, or c{limited}."), check),
        (vault, Id::QuitEndpointOff, format!("Enable the endpoint by the pod's annotation. Or c{limited}: {check}"), endpoint),
        (signal, Id::NonzeroExitCode, format!("A signal ended the sidecar. C{limited}."), check),
        (deleted, Id::LeftToKubelet, format!("C{limited}."), check),
    ];
    for (mut scenario, id, remedy, how) in table {
        scenario.seen.modes = Some(Modes {
            limit: Some(Limit::InvalidConfiguration),
            ..known()
        });
        assert_fix(&scenario, id, &remedy, how);
        let text = serde_json::to_string(&scenario.explain()).unwrap();
        assert!(!text.contains("kubectl annotate node"), "{text}");
    }
}
