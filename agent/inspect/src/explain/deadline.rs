//! A pod whose time is nearly up.
//!
//! `activeDeadlineSeconds` of the pod counts from its start, and is seen here. A Job's own, which counts from the Job's
//! start over all of its pods, is not part of the pod and cannot be seen from the node.

use usher_core::settings::annotation;

use super::{Case, Finding, Id, Severity, date::clock, finding::span};

/// What is left of it when it is near.
const LEFT: u64 = 5;
const EXCEEDED: &str = "DeadlineExceeded";

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let facts = case.facts;
    let (Some(deadline), Some(started)) = (facts.active_deadline, facts.started_ms) else {
        return Vec::new();
    };
    let whole = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    let end = started.saturating_add(whole);
    let exceeded = facts.reason == EXCEEDED;
    let left = end.saturating_sub(case.seen.now_ms);
    if !exceeded && (case.is_over() || left > whole / LEFT) {
        return Vec::new();
    }
    let living = case.living();
    let only_sidecars = case.ends().is_some();
    let (severity, problem) = match (exceeded, only_sidecars) {
        (true, _) => (
            Severity::Error,
            "the pod was ended by its activeDeadlineSeconds".to_owned(),
        ),
        (false, true) => {
            let names: Vec<&str> = living
                .iter()
                .map(|(sidecar, _)| &sidecar.name[..])
                .collect();
            let problem = format!(
                "every app has ended, and in {} the pod's activeDeadlineSeconds will make it a failed one since {} runs on",
                span(left),
                names.join(", ")
            );
            (Severity::Error, problem)
        }
        (false, false) => {
            let problem = format!(
                "the pod has {} left of its activeDeadlineSeconds, and its work is not done",
                span(left)
            );
            (Severity::Warning, problem)
        }
    };
    let ends = format!("{}; it ends the pod at {}", deadline.as_secs(), clock(end));
    let mut finding = Finding::new(Id::DeadlineNear, severity, problem)
        .by("spec.activeDeadlineSeconds", ends)
        .by("status.startTime", clock(started));
    if exceeded {
        finding = finding.by("status.reason", EXCEEDED);
    }
    let finding = finding.by(
        "not seen",
        "the activeDeadlineSeconds of its Job, if it has one, is not on the node",
    );
    let mended = if only_sidecars && !exceeded {
        finding.mend(
            "Have usher show the sidecar out.",
            case.enforce(annotation::QUIT),
        )
    } else {
        finding.mend(
            "Give the pod more time, or find what it waits for.",
            format!(
                "spec:\n  activeDeadlineSeconds: {}",
                deadline.as_secs().saturating_mul(2)
            ),
        )
    };
    vec![mended]
}
