//! Decisions, and the termination of sidecars.

use super::{Label, Metric};
use crate::{decision::Kind, quit::outcome::Outcome};

pub const DECISIONS: Metric = Metric::counter(
    "usher_decisions_total",
    &[Label::of::<Kind>("decision")],
    "Decisions about pods, by the name that the log has",
);

pub const ATTEMPTS: Metric = Metric::counter(
    "usher_quit_attempts_total",
    &[Label::of::<Outcome>("result")],
    "Attempts to terminate a sidecar, by result",
);

pub const REQUEST: Metric = Metric::time(
    "usher_quit_latency_seconds",
    "Time from the end of a pod's last app container until a sidecar accepted the request to quit",
);

pub const SIDECAR_ENDED: Metric = Metric::time(
    "usher_quit_duration_seconds",
    "Time from the end of a pod's last app container until the end of a sidecar that usher terminated",
);

pub(super) const ALL: &[&Metric] = &[&DECISIONS, &ATTEMPTS, &REQUEST, &SIDECAR_ENDED];
