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
        },
        worker,
    },
    quit::outcome::Outcome,
    settings::mode::Mode,
};

pub(crate) use self::exposition::Format;
use self::{
    family::{Counts, States},
    registration::Registration,
};

/// Declares [`Metrics`] and registers each metric: `field: Type = kind(&DESCRIPTION)`, where the kind is a function of
/// [`Registration`].
macro_rules! metrics {
    ($($name:ident: $type:ty = $kind:ident(&$metric:path),)*) => {
        /// Counting is cheap, and allowed on any thread.
        #[derive(Debug)]
        pub(crate) struct Metrics {
            $(pub(crate) $name: $type,)*
            registry: Registry,
        }

        impl Metrics {
            pub(crate) fn new() -> Self {
                let mut all = Registration::default();
                all.build_info();
                Self {
                    $($name: all.$kind(&$metric),)*
                    // Last, because the metrics above register in it.
                    registry: all.finish(),
                }
            }
        }
    };
}

metrics! {
    decisions: Counts<Kind> = counts(&quit::DECISIONS),
    attempts: Counts<Outcome> = counts(&quit::ATTEMPTS),
    quit_request: Histogram = histogram(&quit::REQUEST),
    sidecar_ended: Histogram = histogram(&quit::SIDECAR_ENDED),

    held_pods: Gauge = gauge(&hold::HELD_PODS),
    holds: Counts<HoldResult> = counts(&hold::HOLDS),
    held: Histogram = histogram(&hold::HELD),
    held_connections: Counter = counter(&hold::CONNECTIONS),
    refused_connections: Counter = counter(&hold::REFUSED),
    dropped_copies: Counter = counter(&hold::DROPPED_COPIES),
    hold_supported: Gauge = gauge(&hold::SUPPORTED),
    announcements: Counts<AnnouncementResult> = counts(&hold::ANNOUNCEMENTS),
    cni_listening: Gauge = gauge(&hold::CNI_LISTENING),
    cni_managed: Gauge = gauge(&hold::CNI_MANAGED),
    cni_installed: Gauge = gauge(&hold::CNI_INSTALLED),
    cni_reinstalled: Counter = counter(&hold::CNI_REINSTALLED),

    held_starts: Gauge = gauge(&start::HELD_STARTS),
    start_holds: Counts<StartHoldResult> = counts(&start::STARTS),
    start_held: Histogram = histogram(&start::HELD),
    start_hold_supported: Gauge = gauge(&start::SUPPORTED),
    holder_up: Gauge = gauge(&start::HOLDER_UP),
    holder_restarts: Counter = counter(&start::HOLDER_RESTARTS),
    denied_execs: Counter = counter(&start::DENIED),

    held_stops: Gauge = gauge(&linger::HELD_STOPS),
    lingers: Counts<Released> = counts(&linger::LINGERS),
    lingered: Histogram = histogram(&linger::HELD),

    worker_up: Gauge = gauge(&worker::UP),
    worker_exits: Counter = counter(&worker::EXITS),
    late_jobs: Counter = counter(&worker::LATE_JOBS),
    quarantined_pods: Gauge = gauge(&worker::QUARANTINED),

    ready: Gauge = gauge(&node::READY),
    modes: States<Capability, Mode> = states(&node::MODE),
    pods: Gauge = gauge(&node::PODS),
    finished_pods: Gauge = gauge(&node::FINISHED_PODS),
    gave_up_pods: Gauge = gauge(&node::GAVE_UP_PODS),
    config_valid: Gauge = gauge(&node::CONFIG_VALID),
    config_reloads: Counts<ConfigResult> = counts(&node::CONFIG_RELOADS),
    kubelet_requests: Counts<KubeletResult> = counts(&node::KUBELET_REQUESTS),
    kubelet_request: Histogram = histogram(&node::KUBELET_REQUEST),
    kubelet_skipped_pods: Counts<PodSkipReason> = counts(&node::KUBELET_SKIPPED_PODS),
    node_watch_errors: Counter = counter(&node::NODE_WATCH_ERRORS),
    namespace_requests: Counts<NamespaceResult> = counts(&node::NAMESPACE_REQUESTS),
    discovery_errors: Counts<DiscoveryOperation> = counts(&node::DISCOVERY_ERRORS),
    run_dir_errors: Counts<RunFile> = counts(&node::RUN_DIR_ERRORS),
    timeline_errors: Counter = counter(&node::TIMELINE_ERRORS),

    events: Counts<EventResult> = counts(&event::EVENTS),
    events_queued: Gauge = gauge(&event::QUEUED),
    startup_taint_errors: Counter = counter(&event::STARTUP_TAINT_ERRORS),
}

impl Metrics {
    pub(crate) fn text(&self, format: Format) -> String {
        format.write(&self.registry)
    }
}
