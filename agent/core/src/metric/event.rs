//! Kubernetes Events and the startup taint.

use super::{Label, Metric, value::EventResult};

pub const EVENTS: Metric = Metric::counter(
    "usher_events_total",
    &[Label::of::<EventResult>("result")],
    "Kubernetes Events, by result; `dropped`: the queue was full; `gone`: the namespace of the regarded object, or the \
     Event itself, is gone; `failed`: the API server rejected them; Events without permission stay queued and count at \
     each attempt",
);

pub const QUEUED: Metric =
    Metric::gauge("usher_events_queued", &[], "Kubernetes Events in the queue");

pub const STARTUP_TAINT_ERRORS: Metric = Metric::counter(
    "usher_startup_taint_errors_total",
    &[],
    "Times that the startup taint could not be removed from the Node",
);

pub(super) const ALL: &[&Metric] = &[&EVENTS, &QUEUED, &STARTUP_TAINT_ERRORS];
