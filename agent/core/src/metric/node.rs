//! The agent on its node: modes, discovery, the kubelet and the API server.

use super::{
    Label, Metric,
    value::{
        Capability, ConfigResult, DiscoveryOperation, KubeletResult, NamespaceResult,
        PodSkipReason, RunFile, Version,
    },
};
use crate::settings::mode::Mode;

pub const BUILD_INFO: Metric = Metric::gauge(
    "usher_build_info",
    &[Label::of::<Version>("version")],
    "Always 1; the label has the agent's version",
);

pub const READY: Metric = Metric::gauge(
    "usher_ready",
    &[],
    "1 when the agent is ready: the kubelet has listed its pods, the Node's annotations are known, and the CNI plugin is \
     as the Node's mode needs it",
);

pub const MODE: Metric = Metric::gauge(
    "usher_mode",
    &[
        Label::of::<Capability>("capability"),
        Label::of::<Mode>("mode"),
    ],
    "1 for the mode that a capability is in, 0 for the others",
);

pub const PODS: Metric = Metric::gauge("usher_pods", &[], "Pods that have a cgroup");

pub const FINISHED_PODS: Metric = Metric::gauge(
    "usher_finished_pods",
    &[],
    "Finished pods that still have a cgroup",
);

pub const GAVE_UP_PODS: Metric = Metric::gauge(
    "usher_gave_up_pods",
    &[],
    "Finished pods with a running sidecar that usher gave up on",
);

pub const CONFIG_VALID: Metric = Metric::gauge(
    "usher_config_valid",
    &[],
    "1 while the configuration file is valid, 0 while the last valid one is in use",
);

pub const CONFIG_RELOADS: Metric = Metric::counter(
    "usher_config_reloads_total",
    &[Label::of::<ConfigResult>("result")],
    "Loads of the configuration file, by result",
);

pub const KUBELET_REQUESTS: Metric = Metric::counter(
    "usher_kubelet_requests_total",
    &[Label::of::<KubeletResult>("result")],
    "Requests for the kubelet's pods, by result",
);

pub const KUBELET_REQUEST: Metric = Metric::time(
    "usher_kubelet_request_duration_seconds",
    "Duration of requests for the kubelet's pods",
);

pub const KUBELET_SKIPPED_PODS: Metric = Metric::counter(
    "usher_kubelet_skipped_pods_total",
    &[Label::of::<PodSkipReason>("reason")],
    "Pods in the kubelet's lists that usher does not manage, by reason",
);

pub const NODE_WATCH_ERRORS: Metric = Metric::counter(
    "usher_node_watch_errors_total",
    &[],
    "Errors of the watch on the own Node",
);

pub const NAMESPACE_REQUESTS: Metric = Metric::counter(
    "usher_namespace_requests_total",
    &[Label::of::<NamespaceResult>("result")],
    "Requests for a Namespace, by result",
);

pub const DISCOVERY_ERRORS: Metric = Metric::counter(
    "usher_discovery_errors_total",
    &[Label::of::<DiscoveryOperation>("operation")],
    "Failures to read pods, containers or processes, by operation",
);

pub const RUN_DIR_ERRORS: Metric = Metric::counter(
    "usher_run_dir_errors_total",
    &[Label::of::<RunFile>("file")],
    "Failures to save state in the run directory, by file",
);

pub const TIMELINE_ERRORS: Metric = Metric::counter(
    "usher_timeline_errors_total",
    &[],
    "Failures to save the timeline in the run directory",
);

pub(super) const ALL: &[&Metric] = &[
    &BUILD_INFO,
    &READY,
    &MODE,
    &PODS,
    &FINISHED_PODS,
    &GAVE_UP_PODS,
    &CONFIG_VALID,
    &CONFIG_RELOADS,
    &KUBELET_REQUESTS,
    &KUBELET_REQUEST,
    &KUBELET_SKIPPED_PODS,
    &NODE_WATCH_ERRORS,
    &NAMESPACE_REQUESTS,
    &DISCOVERY_ERRORS,
    &RUN_DIR_ERRORS,
    &TIMELINE_ERRORS,
];
