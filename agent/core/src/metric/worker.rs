//! The worker process, and the pods in quarantine.

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

pub const LATE_JOBS: Metric = Metric::counter(
    "usher_worker_late_jobs_total",
    &[],
    "Jobs that failed because they waited too long, for a processor or in the kernel, and not because of their pod's rules",
);

pub const QUARANTINED: Metric = Metric::gauge(
    "usher_quarantined_pods",
    &[],
    "Pods on the node that usher leaves alone, or did for a while, because of what they do to their network",
);

pub(super) const ALL: &[&Metric] = &[&UP, &EXITS, &LATE_JOBS, &QUARANTINED];
