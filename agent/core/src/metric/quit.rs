//! Decisions, and how sidecars are shown out.

use super::{Label, Metric};
use crate::{decision::Kind, quit::outcome::Outcome};

/// Every decision.
pub const DECISIONS: Metric = Metric::counter(
    "usher_decisions_total",
    &[Label::of::<Kind>("decision")],
    "Decisions about pods, by kind, as in the log; `not-applicable` and `waiting` are counted as well",
);

/// Requests and signals.
pub const ATTEMPTS: Metric = Metric::counter(
    "usher_quit_attempts_total",
    &[Label::of::<Outcome>("result")],
    "Attempts to make a sidecar quit, by what came of them",
);

/// How soon sidecars are asked.
pub const REQUEST: Metric = Metric::time(
    "usher_quit_latency_seconds",
    "Time from the end of a pod's last app container until a sidecar took the request to quit",
);

/// How soon they end.
pub const SIDECAR_ENDED: Metric = Metric::time(
    "usher_quit_duration_seconds",
    "Time from the end of a pod's last app container until a sidecar that was asked to quit had ended",
);

pub(super) const ALL: &[&Metric] = &[&DECISIONS, &ATTEMPTS, &REQUEST, &SIDECAR_ENDED];
