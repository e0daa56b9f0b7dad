//! The agent's metrics.
//!
//! [`usher_core::metric`] has their names, labels and meanings. Every series exists from the start, at 0, so that
//! `increase()` sees the first event as well.

mod exposition;
mod family;
mod process;
mod registration;

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use usher_core::{
    decision::Kind,
    linger::Released,
    metric::{
        event, hold, linger, node, quit, start,
        value::{
            AnnouncementResult, Capability, ConfigResult, DiscoveryOperation, EventResult,
            HoldResult, KubeletResult, NamespaceResult, PodSkipReason, RunFile, StartHoldResult,
            Version,
        },
        worker,
    },
    quit::outcome::Outcome,
    settings::mode::Mode,
};

pub(crate) use self::exposition::Format;
use self::{
    family::{Counts, State, States},
    registration::Registration,
};

/// Counting is cheap, and allowed on any thread.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) decisions: Counts<Kind>,
    pub(crate) attempts: Counts<Outcome>,
    pub(crate) quit_request: Histogram,
    pub(crate) sidecar_ended: Histogram,

    pub(crate) held_pods: Gauge,
    pub(crate) holds: Counts<HoldResult>,
    pub(crate) held: Histogram,
    pub(crate) held_connections: Counter,
    pub(crate) refused_connections: Counter,
    pub(crate) dropped_copies: Counter,
    pub(crate) hold_supported: Gauge,
    pub(crate) announcements: Counts<AnnouncementResult>,
    pub(crate) cni_listening: Gauge,
    pub(crate) cni_managed: Gauge,
    pub(crate) cni_installed: Gauge,
    pub(crate) cni_reinstalled: Counter,

    pub(crate) held_starts: Gauge,
    pub(crate) start_holds: Counts<StartHoldResult>,
    pub(crate) start_held: Histogram,
    pub(crate) start_supported: Gauge,
    pub(crate) holder_up: Gauge,
    pub(crate) holder_restarts: Counter,
    pub(crate) denied_execs: Counter,

    pub(crate) held_stops: Gauge,
    pub(crate) lingers: Counts<Released>,
    pub(crate) lingered: Histogram,

    pub(crate) worker_up: Gauge,
    pub(crate) worker_exits: Counter,
    pub(crate) late_jobs: Counter,
    pub(crate) quarantined_pods: Gauge,

    pub(crate) ready: Gauge,
    pub(crate) modes: States<Capability, Mode>,
    pub(crate) pods: Gauge,
    pub(crate) finished_pods: Gauge,
    pub(crate) config_valid: Gauge,
    pub(crate) config_reloads: Counts<ConfigResult>,
    pub(crate) kubelet_requests: Counts<KubeletResult>,
    pub(crate) kubelet_request: Histogram,
    pub(crate) kubelet_skipped_pods: Counts<PodSkipReason>,
    pub(crate) node_watch_errors: Counter,
    pub(crate) namespace_requests: Counts<NamespaceResult>,
    pub(crate) discovery_errors: Counts<DiscoveryOperation>,
    pub(crate) run_dir_errors: Counts<RunFile>,
    pub(crate) timeline_errors: Counter,

    pub(crate) events: Counts<EventResult>,
    pub(crate) events_queued: Gauge,
    pub(crate) startup_taint_errors: Counter,

    // Last field, because the metrics above register in it.
    registry: Registry,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut all = Registration::default();
        let version: State<Version> = all.state(&node::BUILD_INFO);
        version.set(&Version);
        Self {
            decisions: all.counts(&quit::DECISIONS),
            attempts: all.counts(&quit::ATTEMPTS),
            quit_request: all.histogram(&quit::REQUEST),
            sidecar_ended: all.histogram(&quit::SIDECAR_ENDED),

            held_pods: all.gauge(&hold::HELD_PODS),
            holds: all.counts(&hold::HOLDS),
            held: all.histogram(&hold::HELD),
            held_connections: all.counter(&hold::CONNECTIONS),
            refused_connections: all.counter(&hold::REFUSED),
            dropped_copies: all.counter(&hold::DROPPED_COPIES),
            hold_supported: all.gauge(&hold::SUPPORTED),
            announcements: all.counts(&hold::ANNOUNCEMENTS),
            cni_listening: all.gauge(&hold::CNI_LISTENING),
            cni_managed: all.gauge(&hold::CNI_MANAGED),
            cni_installed: all.gauge(&hold::CNI_INSTALLED),
            cni_reinstalled: all.counter(&hold::CNI_REINSTALLED),

            held_starts: all.gauge(&start::HELD_STARTS),
            start_holds: all.counts(&start::STARTS),
            start_held: all.histogram(&start::HELD),
            start_supported: all.gauge(&start::SUPPORTED),
            holder_up: all.gauge(&start::HOLDER_UP),
            holder_restarts: all.counter(&start::HOLDER_RESTARTS),
            denied_execs: all.counter(&start::DENIED),

            held_stops: all.gauge(&linger::HELD_STOPS),
            lingers: all.counts(&linger::LINGERS),
            lingered: all.histogram(&linger::HELD),

            worker_up: all.gauge(&worker::UP),
            worker_exits: all.counter(&worker::EXITS),
            late_jobs: all.counter(&worker::LATE_JOBS),
            quarantined_pods: all.gauge(&worker::QUARANTINED),

            ready: all.gauge(&node::READY),
            modes: all.states(&node::MODE),
            pods: all.gauge(&node::PODS),
            finished_pods: all.gauge(&node::FINISHED_PODS),
            config_valid: all.gauge(&node::CONFIG_VALID),
            config_reloads: all.counts(&node::CONFIG_RELOADS),
            kubelet_requests: all.counts(&node::KUBELET_REQUESTS),
            kubelet_request: all.histogram(&node::KUBELET_REQUEST),
            kubelet_skipped_pods: all.counts(&node::KUBELET_SKIPPED_PODS),
            node_watch_errors: all.counter(&node::NODE_WATCH_ERRORS),
            namespace_requests: all.counts(&node::NAMESPACE_REQUESTS),
            discovery_errors: all.counts(&node::DISCOVERY_ERRORS),
            run_dir_errors: all.counts(&node::RUN_DIR_ERRORS),
            timeline_errors: all.counter(&node::TIMELINE_ERRORS),

            events: all.counts(&event::EVENTS),
            events_queued: all.gauge(&event::QUEUED),
            startup_taint_errors: all.counter(&event::STARTUP_TAINT_ERRORS),

            registry: all.finish(),
        }
    }

    pub(crate) fn text(&self, format: Format) -> String {
        format.write(&self.registry)
    }
}
