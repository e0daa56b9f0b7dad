//! Starts that wait, and the process that holds them.

use super::{Label, Metric, value::StartHoldResult};

/// Starts at this moment.
pub const HELD_STARTS: Metric = Metric::gauge(
    "usher_held_starts",
    &[],
    "Containers whose start waits for a sidecar at this moment",
);

/// Starts that went.
pub const STARTS: Metric = Metric::counter(
    "usher_start_holds_total",
    &[Label::of::<StartHoldResult>("result")],
    "Starts that waited and were let go, by why",
);

/// How long they waited.
pub const HELD: Metric = Metric::time(
    "usher_start_hold_duration_seconds",
    "Time that starts waited",
);

/// Whether the node can.
pub const SUPPORTED: Metric = Metric::gauge(
    "usher_start_supported",
    &[],
    "1 where the node can hold starts",
);

/// Whether the holder runs.
pub const HOLDER_UP: Metric = Metric::gauge(
    "usher_holder_up",
    &[],
    "1 while the process that holds starts runs; it is started when the first pod wants it",
);

/// How often it ended.
pub const HOLDER_RESTARTS: Metric = Metric::counter(
    "usher_holder_exits_total",
    &[],
    "Times that the process that holds starts ended",
);

pub(super) const ALL: &[&Metric] = &[
    &HELD_STARTS,
    &STARTS,
    &HELD,
    &SUPPORTED,
    &HOLDER_UP,
    &HOLDER_RESTARTS,
];
