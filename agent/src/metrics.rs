//! Every metric of the agent, in one place.

use std::sync::atomic::AtomicI64;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use usher_core::mode::Mode;

/// A counter for each of a few kinds.
type Counters<Labels> = Family<Labels, Counter>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DecisionLabels {
    decision: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResultLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ModeLabels {
    capability: &'static str,
    mode: &'static str,
}

/// The metrics. Counting is cheap and may be done on any thread.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    decisions: Counters<DecisionLabels>,
    attempts: Counters<OutcomeLabels>,
    kubelet_requests: Counters<ResultLabels>,
    discovery_errors: Counters<KindLabels>,
    namespace_requests: Counters<ResultLabels>,
    config_reloads: Counters<ResultLabels>,
    announcements: Counters<ResultLabels>,
    holds: Counters<ReasonLabels>,
    start_holds: Counters<ReasonLabels>,
    modes: Family<ModeLabels, Gauge<i64, AtomicI64>>,
    pub(crate) quit_request: Histogram,
    pub(crate) sidecar_ended: Histogram,
    pub(crate) kubelet_request: Histogram,
    pub(crate) kubelet_bad_pods: Counter,
    pub(crate) node_watch_errors: Counter,
    pub(crate) timeline_errors: Counter,
    pub(crate) config_valid: Gauge,
    pub(crate) pods: Gauge,
    pub(crate) finished_pods: Gauge,
    pub(crate) held_pods: Gauge,
    pub(crate) held: Histogram,
    pub(crate) held_connections: Counter,
    pub(crate) refused_connections: Counter,
    pub(crate) hold_supported: Gauge,
    pub(crate) held_starts: Gauge,
    pub(crate) start_held: Histogram,
    pub(crate) start_supported: Gauge,
    pub(crate) holder_up: Gauge,
    pub(crate) holder_restarts: Counter,
    pub(crate) cni_installed: Gauge,
    pub(crate) cni_reinstalled: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        // 0.25 ms to 65 s, each bucket four times the one before.
        let histogram = || Histogram::new(exponential_buckets(0.00025, 4.0, 10));
        let mut metrics = Self {
            registry: Registry::with_prefix("usher"),
            decisions: Family::default(),
            attempts: Family::default(),
            kubelet_requests: Family::default(),
            discovery_errors: Family::default(),
            namespace_requests: Family::default(),
            config_reloads: Family::default(),
            announcements: Family::default(),
            holds: Family::default(),
            start_holds: Family::default(),
            modes: Family::default(),
            quit_request: histogram(),
            sidecar_ended: histogram(),
            kubelet_request: histogram(),
            kubelet_bad_pods: Counter::default(),
            node_watch_errors: Counter::default(),
            timeline_errors: Counter::default(),
            config_valid: Gauge::default(),
            pods: Gauge::default(),
            finished_pods: Gauge::default(),
            held_pods: Gauge::default(),
            held: histogram(),
            held_connections: Counter::default(),
            refused_connections: Counter::default(),
            hold_supported: Gauge::default(),
            held_starts: Gauge::default(),
            start_held: histogram(),
            start_supported: Gauge::default(),
            holder_up: Gauge::default(),
            holder_restarts: Counter::default(),
            cni_installed: Gauge::default(),
            cni_reinstalled: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "decisions",
            "Decisions by kind, as in the log",
            self.decisions.clone(),
        );
        registry.register(
            "quit_attempts",
            "Attempts to make a sidecar quit, by what came of them",
            self.attempts.clone(),
        );
        registry.register_with_unit(
            "quit_request",
            "Time from the end of a pod's last app container until a sidecar took the request to quit",
            Unit::Seconds,
            self.quit_request.clone(),
        );
        registry.register_with_unit(
            "quit_sidecar_ended",
            "Time from the end of a pod's last app container until a sidecar that was asked to quit had ended",
            Unit::Seconds,
            self.sidecar_ended.clone(),
        );
        registry.register(
            "kubelet_requests",
            "Requests for the kubelet's pods, by result",
            self.kubelet_requests.clone(),
        );
        registry.register_with_unit(
            "kubelet_request",
            "Time that requests for the kubelet's pods took",
            Unit::Seconds,
            self.kubelet_request.clone(),
        );
        registry.register(
            "kubelet_bad_pods",
            "Pods in the kubelet's lists that could not be read",
            self.kubelet_bad_pods.clone(),
        );
        registry.register(
            "node_watch_errors",
            "Errors of the watch on the own Node",
            self.node_watch_errors.clone(),
        );
        registry.register(
            "discovery_errors",
            "Pods, containers or processes that could not be looked at, by what failed",
            self.discovery_errors.clone(),
        );
        registry.register(
            "namespace_requests",
            "Requests for what a Namespace says, by result",
            self.namespace_requests.clone(),
        );
        registry.register(
            "config_reloads",
            "Readings of the configuration file, by result",
            self.config_reloads.clone(),
        );
        registry.register(
            "config_valid",
            "1 while the configuration file is good, 0 while an older one counts",
            self.config_valid.clone(),
        );
        registry.register(
            "cni_installed",
            "1 while the CNI plugin and its entry in the network configuration are in place",
            self.cni_installed.clone(),
        );
        registry.register(
            "cni_reinstalled",
            "Times that the CNI plugin's entry was put back after somebody had removed it",
            self.cni_reinstalled.clone(),
        );
        registry.register(
            "timeline_errors",
            "Times that the timeline could not be kept in the run directory",
            self.timeline_errors.clone(),
        );
        registry.register("pods", "Pods that have a cgroup", self.pods.clone());
        registry.register(
            "finished_pods",
            "Pods whose app containers ended for good and that are still there",
            self.finished_pods.clone(),
        );
        registry.register(
            "announcements",
            "Sandboxes that the CNI plugin announced, by the answer",
            self.announcements.clone(),
        );
        registry.register(
            "held_pods",
            "Pods whose connections wait for a sidecar",
            self.held_pods.clone(),
        );
        registry.register("holds", "Holds that are over, by why", self.holds.clone());
        registry.register_with_unit(
            "hold",
            "Time from the moment that connections of a pod were made to wait until they were let go",
            Unit::Seconds,
            self.held.clone(),
        );
        registry.register(
            "held_connections",
            "Connections that waited and were let go",
            self.held_connections.clone(),
        );
        registry.register(
            "refused_connections",
            "Connections that were refused and would have waited; observe mode",
            self.refused_connections.clone(),
        );
        registry.register(
            "hold_supported",
            "1 where the node's kernel can hold connections",
            self.hold_supported.clone(),
        );
        self.register_starts();
        self.registry.register(
            "mode",
            "1 for the mode that a capability is in",
            self.modes.clone(),
        );
    }

    fn register_starts(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "held_starts",
            "Containers whose start waits for a sidecar",
            self.held_starts.clone(),
        );
        registry.register(
            "start_holds",
            "Starts that waited and were let go, by why",
            self.start_holds.clone(),
        );
        registry.register_with_unit(
            "start_held",
            "Time that starts waited",
            Unit::Seconds,
            self.start_held.clone(),
        );
        registry.register(
            "start_supported",
            "1 where the node can hold starts",
            self.start_supported.clone(),
        );
        registry.register(
            "holder_up",
            "1 while the process that holds starts runs; it is started when the first pod wants it",
            self.holder_up.clone(),
        );
        registry.register(
            "holder_restarts",
            "Times that the process that holds starts ended",
            self.holder_restarts.clone(),
        );
    }

    pub(crate) fn decision(&self, decision: &'static str) {
        self.decisions
            .get_or_create(&DecisionLabels { decision })
            .inc();
    }

    pub(crate) fn attempt(&self, outcome: &'static str) {
        self.attempts
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }

    pub(crate) fn kubelet_request(&self, result: &'static str) {
        self.kubelet_requests
            .get_or_create(&ResultLabels { result })
            .inc();
    }

    pub(crate) fn discovery_error(&self, kind: &'static str) {
        self.discovery_errors
            .get_or_create(&KindLabels { kind })
            .inc();
    }

    pub(crate) fn namespace_request(&self, result: &'static str) {
        self.namespace_requests
            .get_or_create(&ResultLabels { result })
            .inc();
    }

    pub(crate) fn config_reload(&self, result: &'static str) {
        self.config_reloads
            .get_or_create(&ResultLabels { result })
            .inc();
    }

    pub(crate) fn announcement(&self, result: &'static str) {
        self.announcements
            .get_or_create(&ResultLabels { result })
            .inc();
    }

    pub(crate) fn hold(&self, reason: &'static str) {
        self.holds.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn start_hold(&self, reason: &'static str) {
        let reason = ReasonLabels { reason };
        self.start_holds.get_or_create(&reason).inc();
    }

    pub(crate) fn mode(&self, capability: &'static str, current: Mode) {
        for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
            let labels = ModeLabels {
                capability,
                mode: mode.as_str(),
            };
            let value = i64::from(mode == current);
            self.modes.get_or_create(&labels).set(value);
        }
    }

    /// All metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if encode(&mut text, &self.registry).is_err() {
            text.clear();
        }
        text
    }
}
