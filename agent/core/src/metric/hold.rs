//! Connections that wait, and the CNI plugin that tells of pods in time.

use super::{
    Label, Metric,
    value::{AnnouncementResult, HoldResult},
};

/// Holds at this moment.
pub const HELD_PODS: Metric = Metric::gauge(
    "usher_held_pods",
    &[],
    "Pods whose connections wait for a sidecar at this moment",
);

/// Holds that are over.
pub const HOLDS: Metric = Metric::counter(
    "usher_holds_total",
    &[Label::of::<HoldResult>("result")],
    "Holds of pods' connections that are over, by why; `failed`: they could not be made to wait",
);

/// How long they were.
pub const HELD: Metric = Metric::time(
    "usher_hold_duration_seconds",
    "Time from the moment that connections of a pod were made to wait until they were let go",
);

/// What had waited.
pub const CONNECTIONS: Metric = Metric::counter(
    "usher_hold_connections_total",
    &[],
    "Connections that waited and were let go",
);

/// What would have waited.
pub const REFUSED: Metric = Metric::counter(
    "usher_hold_refused_connections_total",
    &[],
    "Connections that were refused and would have waited; counted in observe mode",
);

/// Whether the node can.
pub const SUPPORTED: Metric = Metric::gauge(
    "usher_hold_supported",
    &[],
    "1 where the node's kernel can hold connections",
);

/// What the CNI plugin was told.
pub const ANNOUNCEMENTS: Metric = Metric::counter(
    "usher_cni_announcements_total",
    &[Label::of::<AnnouncementResult>("result")],
    "Sandboxes that the CNI plugin announced, by the answer",
);

/// Whether it is heard.
pub const CNI_LISTENING: Metric = Metric::gauge(
    "usher_cni_listening",
    &[],
    "1 while the agent listens where the CNI plugin announces sandboxes",
);

/// Whether it is installed where it is wanted.
pub const CNI_MANAGED: Metric = Metric::gauge(
    "usher_cni_managed",
    &[],
    "1 where the agent has the host's directories of CNI plugins and configurations, and so installs the plugin while the Node wants it",
);

/// Whether the plugin is in place.
pub const CNI_INSTALLED: Metric = Metric::gauge(
    "usher_cni_installed",
    &[],
    "1 while the CNI plugin and its entry in the network configuration are in place",
);

/// How often somebody removed it.
pub const CNI_REINSTALLED: Metric = Metric::counter(
    "usher_cni_reinstalls_total",
    &[],
    "Times that the CNI plugin's entry was put back after somebody had removed it",
);

pub(super) const ALL: &[&Metric] = &[
    &HELD_PODS,
    &HOLDS,
    &HELD,
    &CONNECTIONS,
    &REFUSED,
    &SUPPORTED,
    &ANNOUNCEMENTS,
    &CNI_LISTENING,
    &CNI_MANAGED,
    &CNI_INSTALLED,
    &CNI_REINSTALLED,
];
