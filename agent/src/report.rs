//! Decisions, for people: a log line and metrics for each.

use usher_core::{
    Decision,
    decision::{GaveUp, Kind},
};

use crate::metrics::Metrics;

/// Records a decision.
pub(crate) fn decision(metrics: &Metrics, decision: &Decision) {
    let kind = &decision.kind;
    metrics.decision(kind.as_str());
    if let Some(since) = decision.since_exit {
        match kind {
            Kind::QuitAccepted { .. } => metrics.quit_request.observe(since.as_secs_f64()),
            Kind::SidecarEnded { asked: true } => {
                metrics.sidecar_ended.observe(since.as_secs_f64());
            }
            _ => {}
        }
    }
    let since_exit_ms = decision
        .since_exit
        .map(|since| (since.as_secs_f64() * 1e6).round() / 1e3);
    let pod = &decision.pod_name;
    let uid = &decision.pod;
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                decision = kind.as_str(),
                pod,
                %uid,
                container = decision.container,
                since_exit_ms,
                reason = kind.reason(),
                "decided"
            )
        };
    }
    match kind {
        Kind::GaveUp {
            reason: GaveUp::StillRuns | GaveUp::ComesBack,
        }
        | Kind::StepFailed { .. }
        | Kind::BadAnnotation { .. } => line!(warn),
        _ => line!(info),
    }
}
