//! The worker process, and the pods that it leaves alone.

use super::Metric;

pub const UP: Metric = Metric::gauge(
    "usher_worker_up",
    &[],
    "1 while the process runs that works in the network namespaces of pods",
);

pub const EXITS: Metric = Metric::counter(
    "usher_worker_exits_total",
    &[],
    "Exits of that process, and replacements of one that did not reply",
);

pub const QUARANTINED: Metric = Metric::gauge(
    "usher_quarantined_pods",
    &[],
    "Pods on the node that usher leaves alone, or did for a while, because of what they do to their network",
);

pub(super) const ALL: &[&Metric] = &[&UP, &EXITS, &QUARANTINED];
