//! Pods that finished or are near their end.

use serde_json::{Value, json};
use usher_core::{hold::Released, settings::mode::Mode};

use super::{
    Detail, Id, Scenario, Severity, healthy, only,
    pods::{QUIT_ACCEPTED, app, job, proxy, released},
    troubles,
};

#[test]
fn endpoint_that_is_off() {
    let sql = |args: Value| {
        let image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0";
        let proxy = proxy("cloud-sql-proxy", image, json!({"args": args}));
        Scenario::new(job(&[app(json!({})), proxy]))
            .running("app", 60)
            .running("cloud-sql-proxy", 59)
    };
    only(
        &sql(json!(["p:r:i"])),
        Id::QuitEndpointOff,
        &["no --quitquitquit", "--exit-zero-on-sigterm"],
    );
    assert_eq!(troubles(&sql(json!(["--quitquitquit"]))), [""; 0]);
    assert_eq!(
        troubles(&sql(json!(["--exit-zero-on-sigterm"]))),
        [""; 0],
        "SIGTERM ends it with 0"
    );
    let failing =
        sql(json!(["p:r:i"]))
            .ended("app", 50, 10, 0)
            .ended("cloud-sql-proxy", 51, 9, 143);
    only(&failing, Id::NonzeroExitCode, &["--exit-zero-on-sigterm"]);
    let again = failing.policy("OnFailure").restarted("cloud-sql-proxy", 8);
    only(&again, Id::NonzeroExitCode, &["no --quitquitquit"]);
    let service = sql(json!(["p:r:i"])).policy("Always");
    assert_eq!(troubles(&service), [""; 0], "its work has no end");
    let linkerd = |annotations: &[(&str, &str)]| {
        let proxy = proxy(
            "linkerd-proxy",
            "cr.l5d.io/linkerd/proxy:edge-25.8.1",
            json!({}),
        );
        let scenario = Scenario::new(job(&[app(json!({})), proxy])).running("linkerd-proxy", 300);
        let scenario = scenario.ended("app", 290, 250, 0);
        annotations.iter().fold(scenario, |scenario, (key, value)| {
            scenario.annotation(key, value)
        })
    };
    let key = "config.linkerd.io/proxy-admin-shutdown";
    let stuck = linkerd(&[]);
    let finding = only(&stuck, Id::QuitEndpointOff, &["4191", key, "ago"]);
    assert_eq!(finding.severity, Severity::Error);
    only(
        &linkerd(&[(key, "enabled")]),
        Id::SidecarStays,
        &["exit code 0"],
    );
    let running = linkerd(&[]).running("app", 290);
    let hints = running.explain().findings;
    assert_eq!(
        (hints.len(), hints[0].severity),
        (1, Severity::Hint),
        "SIGTERM is left: {hints:?}"
    );
    let off = healthy()
        .annotation("status.sidecar.istio.io/port", "0")
        .listening(&[15000]);
    let off = off.ended("app", 50, 40, 0);
    only(&off, Id::QuitEndpointOff, &["15020", "no listener"]);
}

#[test]
fn exit_code_that_fails_a_job() {
    let scenario = healthy()
        .ended("app", 50, 10, 0)
        .ended("istio-proxy", 51, 9, 143);
    let finding = only(
        &scenario,
        Id::NonzeroExitCode,
        &["143", "Never", "backoffLimit", "Job"],
    );
    assert_eq!(
        finding.evidence[0].source,
        "status.containerStatuses[istio-proxy].state.terminated"
    );
    let both = healthy()
        .ended("app", 50, 10, 3)
        .ended("istio-proxy", 51, 9, 143);
    assert_eq!(troubles(&both), [""; 0], "the app failed as well");
    let mut deleted = healthy().ended("istio-proxy", 51, 9, 143);
    deleted.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    assert_eq!(troubles(&deleted), [""; 0], "the kubelet terminated it");
    let again = healthy().policy("OnFailure").ended("app", 50, 10, 0);
    let again = again
        .ended("istio-proxy", 51, 9, 137)
        .restarted("istio-proxy", 8);
    only(&again, Id::NonzeroExitCode, &["restarts it", "lastState"]);
    let crash = healthy()
        .policy("OnFailure")
        .ended("istio-proxy", 51, 9, 137)
        .restarted("istio-proxy", 8);
    assert_eq!(troubles(&crash), [""; 0], "the restart has repaired it");
}

#[test]
fn pod_near_its_deadline() {
    let near = healthy().deadline(65);
    only(
        &near,
        Id::DeadlineNear,
        &["activeDeadlineSeconds", "5 s left", "not on the node"],
    );
    assert_eq!(troubles(&healthy().deadline(600)), [""; 0]);
    let exceeded = healthy().deadline(50).reason("Failed", "DeadlineExceeded");
    only(&exceeded, Id::DeadlineNear, &["ended the pod"]);
    let done = healthy().deadline(65).ended("app", 60, 2, 0);
    let finding = only(&done, Id::DeadlineNear, &["usher.dev/quit=enforce"]);
    assert_eq!(finding.severity, Severity::Error);
}

#[test]
fn sidecar_that_stays() {
    let stuck = healthy().ended("app", 60, 30, 0);
    let finding = only(
        &stuck,
        Id::SidecarStays,
        &["30 s ago", "quit: observe", "usher.dev/quit=enforce"],
    );
    assert_eq!(finding.container.as_deref(), Some("istio-proxy"));
    assert_eq!(
        troubles(&healthy().ended("app", 60, 1, 0)),
        [""; 0],
        "it has just ended"
    );
    let opted = healthy()
        .ended("app", 60, 30, 0)
        .annotation("usher.dev/quit", "false");
    only(
        &opted,
        Id::SidecarStays,
        &["metadata.annotations[usher.dev/quit]"],
    );
    let gave_up = stuck
        .mode(Mode::Enforce)
        .decided(20, Detail::GaveUp, "every step was tried");
    only(
        &gave_up,
        Id::SidecarStays,
        &["every step was tried", "delete pod"],
    );
    let requested = healthy()
        .mode(Mode::Enforce)
        .ended("app", 60, 6, 0)
        .decided(6, QUIT_ACCEPTED, "POST");
    assert_eq!(troubles(&requested), [""; 0], "it has 5 s for SIGTERM");
}

#[test]
fn sidecar_that_was_not_ready_at_the_deadline_is_not_called_ready() {
    let late = healthy().decided(20, released(Released::Deadline, 0), "too late");
    let verdict = late.explain().verdict;
    assert!(!verdict.healthy, "{verdict:?}");
    assert!(verdict.message.contains("was not ready"), "{verdict:?}");
    let again = late.decided(10, released(Released::Ready, 0), "in time");
    assert!(again.explain().verdict.healthy, "the newest hold counts");
}
