//! A pod near its deadline.
//!
//! `activeDeadlineSeconds` of the pod counts from its start and is visible here. A Job's own deadline, which counts over
//! all pods of the Job, is not part of the pod.

use super::{Finding, Id, NOT_VISIBLE, Severity, end::stays};
use crate::explain::{
    Case,
    case::{millis, names},
    date::{clock, span},
};

/// The deadline is near when one part in `LEFT` of it remains.
const LEFT: u64 = 5;
/// `status.reason` of a pod that the kubelet terminated at its deadline.
const EXCEEDED: &str = "DeadlineExceeded";

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let facts = case.facts;
    let (deadline, started) = (facts.active_deadline?, facts.started_ms?);
    let whole = millis(deadline);
    let end = started.saturating_add(whole);
    let left = end.saturating_sub(case.seen.now_ms);
    let exceeded = facts.reason == EXCEEDED;
    if !exceeded && (case.is_over() || left > whole / LEFT) {
        return None;
    }
    let last = match case.ends() {
        Some(_) if !exceeded => remaining(case),
        _ => Vec::new(),
    };
    let (severity, problem) = if exceeded {
        let problem = "the kubelet ended the pod at its activeDeadlineSeconds";
        (Severity::Error, problem.to_owned())
    } else if !last.is_empty() {
        let problem = format!(
            "every app ended, and in {} activeDeadlineSeconds fails the pod, which waits for the end of {}",
            span(left),
            last.join(", ")
        );
        (Severity::Error, problem)
    } else {
        let problem = format!(
            "the pod has {} left of its activeDeadlineSeconds and has not finished",
            span(left)
        );
        (Severity::Warning, problem)
    };
    let seconds = deadline.as_secs();
    let reason = ("status.reason".to_owned(), EXCEEDED);
    let finding = Finding::new(Id::DeadlineNear, severity, problem)
        .because(
            "spec.activeDeadlineSeconds",
            format!("{seconds}; the deadline is at {}", clock(end)),
        )
        .because("status.startTime", clock(started))
        .because_any(exceeded.then_some(reason))
        .because(
            NOT_VISIBLE,
            "the activeDeadlineSeconds of its Job, if any, is not on the node",
        );
    let twice = seconds.saturating_mul(2);
    Some(match last.first() {
        Some(first) => stays::advise(case, finding, first),
        None => finding.fix(
            "Raise activeDeadlineSeconds, or find what delays the pod.",
            format!("spec:\n  activeDeadlineSeconds: {twice}"),
        ),
    })
}

/// The containers that keep a pod whose apps ended: first the sidecars, then those that end after them.
fn remaining<'pod>(case: &Case<'pod>) -> Vec<&'pod str> {
    let servants = case.servants().filter(|one| !one.is_native);
    let mut remaining = names(servants.filter(|one| case.ended_for_good(one).is_none()));
    remaining.sort_by_key(|name| case.plan.ends_by_itself(name));
    remaining
}
