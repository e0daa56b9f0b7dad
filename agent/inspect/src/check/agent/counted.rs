//! The checks of the agent that its metrics answer.

use usher_core::metric::sample::{Sample, sum};

use super::{EVENTS, FAILURES, HOLDER, QUARANTINE, SETTINGS, WORKER};
use crate::check::{Check, command};

pub(super) fn settings(samples: &[Sample]) -> Check {
    let is = sum(samples, "usher_config_valid", &[]) > 0.0;
    if is {
        let readings = sum(samples, "usher_config_reloads_total", &[("result", "ok")]);
        return SETTINGS.ok(format!("read {readings} times"));
    }
    SETTINGS.failed(
        "the agent rejected the file",
        "see node-configuration for file, line and key; the agent reloads the corrected file",
    )
}

pub(super) fn worker(samples: &[Sample]) -> Check {
    let exits = sum(samples, "usher_worker_exits_total", &[]);
    let is_up = sum(samples, "usher_worker_up", &[]) > 0.0;
    let fix = ended("worker");
    match (is_up, exits > 0.0) {
        (true, false) => WORKER.ok("running"),
        (true, true) => WORKER.warning(format!("ended {exits} times, and runs now"), fix),
        (false, _) => WORKER.failed(format!("not running; ended {exits} times"), fix),
    }
}

/// The fix for a process of the agent that ended.
fn ended(process: &str) -> String {
    let logs = command::logs(&format!(" | grep {process}"));
    format!("{logs}; the kernel ends it at a low memory limit: resources.limits.memory")
}

pub(super) fn quarantine(samples: &[Sample]) -> Check {
    match sum(samples, "usher_quarantined_pods", &[]) {
        0.0 => QUARANTINE.ok("none"),
        pods => QUARANTINE.warning(
            format!("{pods} pods"),
            "kubectl get events -A --field-selector reason=PodQuarantined names them",
        ),
    }
}

pub(super) fn holder(samples: &[Sample]) -> Check {
    let restarts = sum(samples, "usher_holder_exits_total", &[]);
    let is_up = sum(samples, "usher_holder_up", &[]) > 0.0;
    let is_supported = sum(samples, "usher_start_hold_supported", &[]) > 0.0;
    let denied = sum(samples, "usher_start_denied_execs_total", &[]);
    if denied > 0.0 {
        let state = if is_supported {
            "starts are held"
        } else {
            "starts are not held until the agent retries"
        };
        return HOLDER.warning(
            format!("the kernel denied {denied} execs, because it could not open their programs for usher; {state}"),
            format!("see docs/start.md#denied-execs; {}", command::logs(" | grep 'denied an exec'")),
        );
    }
    // The same process holds stop signals, also where starts cannot be held.
    let unsupported =
        "starts cannot be held now: see kernel-fanotify, node-bundles and kernel-inotify-instances";
    let state = match (is_up, is_supported) {
        (true, true) => "running".to_owned(),
        (true, false) => format!("running; {unsupported}"),
        (false, _) => "not running: it starts for the first pod that needs it".to_owned(),
    };
    if restarts > 0.0 {
        let message = format!("ended {restarts} times; running now: {is_up}");
        return HOLDER.warning(message, ended("holder"));
    }
    if !is_up && !is_supported {
        return HOLDER.skipped(unsupported);
    }
    HOLDER.ok(state)
}

pub(super) fn events(samples: &[Sample]) -> Check {
    let of = |result| sum(samples, "usher_events_total", &[("result", result)]);
    let (sent, dropped, failed) = (of("sent"), of("dropped"), of("failed"));
    let message = format!("{sent} sent, {dropped} dropped, {failed} failed");
    if failed > sent {
        return EVENTS.warning(
            message,
            "kubectl auth can-i create events.events.k8s.io --as system:serviceaccount:usher:usher",
        );
    }
    EVENTS.ok(message)
}

/// A failure, its metric, and the labels.
type Counted<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

pub(super) fn failures(samples: &[Sample]) -> Check {
    let counted: [Counted<'_>; 8] = [
        (
            "sidecars given up",
            "usher_decisions_total",
            &[("decision", "gave-up")],
        ),
        (
            "holds failed",
            "usher_decisions_total",
            &[("decision", "hold-failed")],
        ),
        (
            "starts missed",
            "usher_decisions_total",
            &[("decision", "start-missed")],
        ),
        (
            "attempts failed",
            "usher_quit_attempts_total",
            &[("result", "failed")],
        ),
        (
            "pods or processes not inspected",
            "usher_discovery_errors_total",
            &[],
        ),
        (
            "pods of the kubelet skipped",
            "usher_kubelet_skipped_pods_total",
            &[],
        ),
        ("timeline not written", "usher_timeline_errors_total", &[]),
        ("log lines dropped", "usher_log_lines_dropped_total", &[]),
    ];
    let counted = counted.map(|(what, name, labels)| (what, sum(samples, name, labels)));
    let there: Vec<String> = counted
        .iter()
        .filter(|(_, count)| *count > 0.0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if there.is_empty() {
        return FAILURES.ok("nothing");
    }
    FAILURES.warning(
        there.join(", "),
        "usher pods, then usher explain POD; usher metrics errors and docs/metrics.md have the details",
    )
}
