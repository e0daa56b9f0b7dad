//! Holds of starts, and the process that holds them.

use super::{Label, Metric, value::StartHoldResult};

pub const HELD_STARTS: Metric =
    Metric::gauge("usher_held_starts", &[], "Containers with a start on hold");

pub const STARTS: Metric = Metric::counter(
    "usher_start_holds_total",
    &[Label::of::<StartHoldResult>("result")],
    "Holds of starts that ended, by result",
);

pub const HELD: Metric = Metric::time(
    "usher_start_hold_duration_seconds",
    "Time for which starts were held",
);

pub const SUPPORTED: Metric = Metric::gauge(
    "usher_start_hold_supported",
    &[],
    "1 where the node can hold starts",
);

pub const HOLDER_UP: Metric = Metric::gauge(
    "usher_holder_up",
    &[],
    "1 while the process that holds starts and stop signals runs; the first pod that requests it starts it",
);

pub const HOLDER_RESTARTS: Metric = Metric::counter(
    "usher_holder_exits_total",
    &[],
    "Exits of the process that holds starts and stop signals, which release both",
);

pub const DENIED: Metric = Metric::counter(
    "usher_start_denied_execs_total",
    &[],
    "Execs that the kernel denied because it could not open the program for the holder",
);

pub(super) const ALL: &[&Metric] = &[
    &HELD_STARTS,
    &STARTS,
    &HELD,
    &SUPPORTED,
    &HOLDER_UP,
    &HOLDER_RESTARTS,
    &DENIED,
];
