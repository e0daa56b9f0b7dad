//! Holds of connections, and the CNI plugin that announces pods.

use super::{
    Label, Metric,
    value::{AnnouncementResult, HoldResult},
};

pub const HELD_PODS: Metric =
    Metric::gauge("usher_held_pods", &[], "Pods with connections on hold");

pub const HOLDS: Metric = Metric::counter(
    "usher_holds_total",
    &[Label::of::<HoldResult>("result")],
    "Holds of pods' connections that ended, by result; `failed`: connections could not be held",
);

pub const HELD: Metric = Metric::time(
    "usher_hold_duration_seconds",
    "Time for which connections of a pod were held",
);

pub const CONNECTIONS: Metric = Metric::counter(
    "usher_hold_connections_total",
    &[],
    "Connections that were held and released",
);

pub const REFUSED: Metric = Metric::counter(
    "usher_hold_refused_connections_total",
    &[],
    "Connections that were refused in observe mode, and that a hold would have prevented",
);

pub const DROPPED_COPIES: Metric = Metric::counter(
    "usher_hold_dropped_copies_total",
    &[],
    "Copies of SYNs of held pods that were dropped for lack of room; their connections continue with their next retransmission",
);

pub const SUPPORTED: Metric = Metric::gauge(
    "usher_hold_supported",
    &[],
    "1 where the node's kernel can hold connections",
);

pub const ANNOUNCEMENTS: Metric = Metric::counter(
    "usher_cni_announcements_total",
    &[Label::of::<AnnouncementResult>("result")],
    "Sandboxes that the CNI plugin announced, by result",
);

pub const CNI_LISTENING: Metric = Metric::gauge(
    "usher_cni_listening",
    &[],
    "1 while the agent listens where the CNI plugin announces sandboxes",
);

pub const CNI_MANAGED: Metric = Metric::gauge(
    "usher_cni_managed",
    &[],
    "1 where the agent has the host's directories of CNI plugins and configurations, and so installs the plugin while the Node wants it",
);

pub const CNI_INSTALLED: Metric = Metric::gauge(
    "usher_cni_installed",
    &[],
    "1 while the CNI plugin and its entry in the network configuration are in place",
);

pub const CNI_REINSTALLED: Metric = Metric::counter(
    "usher_cni_reinstalls_total",
    &[],
    "Times that the agent restored the removed entry of the CNI plugin",
);

pub(super) const ALL: &[&Metric] = &[
    &HELD_PODS,
    &HOLDS,
    &HELD,
    &CONNECTIONS,
    &REFUSED,
    &DROPPED_COPIES,
    &SUPPORTED,
    &ANNOUNCEMENTS,
    &CNI_LISTENING,
    &CNI_MANAGED,
    &CNI_INSTALLED,
    &CNI_REINSTALLED,
];
