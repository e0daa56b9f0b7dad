//! The agent on its node: what it may do, what it sees, whom it reaches.

use super::{
    Label, Metric,
    value::{
        Capability, ConfigResult, DiscoveryOperation, KubeletResult, NamespaceResult, RunFile,
        Version,
    },
};
use crate::settings::mode::Mode;

/// Which agent this is.
pub const BUILD_INFO: Metric = Metric::gauge(
    "usher_build_info",
    &[Label::of::<Version>("version")],
    "Always 1; its label says the agent's version",
);

/// Whether `/readyz` says so.
pub const READY: Metric = Metric::gauge(
    "usher_ready",
    &[],
    "1 when the agent is ready: the kubelet has listed its pods and the Node's annotations are known",
);

/// What it may do.
pub const MODE: Metric = Metric::gauge(
    "usher_mode",
    &[
        Label::of::<Capability>("capability"),
        Label::of::<Mode>("mode"),
    ],
    "1 for the mode that a capability is in, 0 for the others",
);

/// Pods on the node.
pub const PODS: Metric = Metric::gauge("usher_pods", &[], "Pods that have a cgroup");

/// Those that are to go.
pub const FINISHED_PODS: Metric = Metric::gauge(
    "usher_finished_pods",
    &[],
    "Pods whose app containers ended for good and that are still there",
);

/// The configuration file at this moment.
pub const CONFIG_VALID: Metric = Metric::gauge(
    "usher_config_valid",
    &[],
    "1 while the configuration file is good, 0 while an older one counts",
);

/// Readings of it.
pub const CONFIG_RELOADS: Metric = Metric::counter(
    "usher_config_reloads_total",
    &[Label::of::<ConfigResult>("result")],
    "Readings of the configuration file, by result",
);

/// Requests to the kubelet.
pub const KUBELET_REQUESTS: Metric = Metric::counter(
    "usher_kubelet_requests_total",
    &[Label::of::<KubeletResult>("result")],
    "Requests for the kubelet's pods, by result",
);

/// How long they took.
pub const KUBELET_REQUEST: Metric = Metric::time(
    "usher_kubelet_request_duration_seconds",
    "Time that requests for the kubelet's pods took",
);

/// What it told and cannot be read.
pub const KUBELET_BAD_PODS: Metric = Metric::counter(
    "usher_kubelet_bad_pods_total",
    &[],
    "Pods in the kubelet's lists that could not be read",
);

/// The watch on the API server.
pub const NODE_WATCH_ERRORS: Metric = Metric::counter(
    "usher_node_watch_errors_total",
    &[],
    "Errors of the watch on the own Node",
);

/// Requests to the API server.
pub const NAMESPACE_REQUESTS: Metric = Metric::counter(
    "usher_namespace_requests_total",
    &[Label::of::<NamespaceResult>("result")],
    "Requests for what a Namespace says, by result",
);

/// What the kernel does not show.
pub const DISCOVERY_ERRORS: Metric = Metric::counter(
    "usher_discovery_errors_total",
    &[Label::of::<DiscoveryOperation>("operation")],
    "Pods, containers or processes that could not be looked at, by what failed",
);

/// What a restart would not know.
pub const RUN_DIR_ERRORS: Metric = Metric::counter(
    "usher_run_dir_errors_total",
    &[Label::of::<RunFile>("file")],
    "Times that a file of what was last known could not be kept in the run directory, by file",
);

/// What cannot be written down.
pub const TIMELINE_ERRORS: Metric = Metric::counter(
    "usher_timeline_errors_total",
    &[],
    "Times that the timeline could not be kept in the run directory",
);

pub(super) const ALL: &[&Metric] = &[
    &BUILD_INFO,
    &READY,
    &MODE,
    &PODS,
    &FINISHED_PODS,
    &CONFIG_VALID,
    &CONFIG_RELOADS,
    &KUBELET_REQUESTS,
    &KUBELET_REQUEST,
    &KUBELET_BAD_PODS,
    &NODE_WATCH_ERRORS,
    &NAMESPACE_REQUESTS,
    &DISCOVERY_ERRORS,
    &RUN_DIR_ERRORS,
    &TIMELINE_ERRORS,
];
