//! The agent's main process, by the names that all programs use for it.

use super::{Kind, Metric, Unit};

pub const CPU: Metric = Metric {
    unit: Some(Unit::Seconds),
    ..Metric::counter(
        "process_cpu_seconds_total",
        &[],
        "Processor time that the agent's main process has used, in user and system mode; its worker and holder processes \
         are not included",
    )
};

pub const RESIDENT: Metric = bytes(
    "process_resident_memory_bytes",
    "Resident memory of the agent's main process, including shared pages; its worker and holder processes are not \
     included",
);

pub const VIRTUAL: Metric = bytes(
    "process_virtual_memory_bytes",
    "Size of the address space of the agent's main process",
);

pub const OPEN_FDS: Metric = Metric::gauge(
    "process_open_fds",
    &[],
    "Open file descriptors of the agent: one or two for each container",
);

pub const MAX_FDS: Metric = Metric::gauge("process_max_fds", &[], "Limit of open file descriptors");

pub const START: Metric = Metric {
    kind: Kind::Gauge,
    ..Metric::time(
        "process_start_time_seconds",
        "When the agent started, in seconds since 1970",
    )
};

pub const LOG_LINES_DROPPED: Metric = Metric::counter(
    "usher_log_lines_dropped_total",
    &[],
    "Lines of the agent's log that were dropped because no process read them, as while the container runtime is down",
);

const fn bytes(name: &'static str, meaning: &'static str) -> Metric {
    Metric {
        unit: Some(Unit::Bytes),
        ..Metric::gauge(name, &[], meaning)
    }
}

pub(super) const ALL: &[&Metric] = &[
    &LOG_LINES_DROPPED,
    &CPU,
    &RESIDENT,
    &VIRTUAL,
    &OPEN_FDS,
    &MAX_FDS,
    &START,
];
