//! Holds of stop signals.

use super::{Label, Metric};
use crate::linger::Released;

pub const HELD_STOPS: Metric = Metric::gauge(
    "usher_held_stop_signals",
    &[],
    "Containers of deleted pods with a stop signal on hold",
);

pub const LINGERS: Metric = Metric::counter(
    "usher_lingers_total",
    &[Label::of::<Released>("result")],
    "Holds of stop signals that ended, by result",
);

pub const HELD: Metric = Metric::time(
    "usher_linger_duration_seconds",
    "Time for which stop signals were held",
);

pub(super) const ALL: &[&Metric] = &[&HELD_STOPS, &LINGERS, &HELD];
