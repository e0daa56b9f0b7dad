//! Kubernetes Events, and the startup taint.

use super::{Label, Metric, value::EventResult};

/// What came of Events.
pub const EVENTS: Metric = Metric::counter(
    "usher_events_total",
    &[Label::of::<EventResult>("result")],
    "Kubernetes Events, by what came of them; `dropped`: the queue was full, or what they are about is gone; `failed`: \
     the API server refused them, and those for which usher has no right are kept and count each time",
);

/// Those that wait.
pub const QUEUED: Metric = Metric::gauge(
    "usher_events_queued",
    &[],
    "Kubernetes Events that wait to be sent",
);

/// The startup taint stays.
pub const STARTUP_TAINT_ERRORS: Metric = Metric::counter(
    "usher_startup_taint_errors_total",
    &[],
    "Times that the startup taint could not be removed from the Node",
);

pub(super) const ALL: &[&Metric] = &[&EVENTS, &QUEUED, &STARTUP_TAINT_ERRORS];
