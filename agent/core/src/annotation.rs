//! Annotation keys, in one place.

/// Everything that usher reads from users begins with this.
pub const PREFIX: &str = "usher.dev/";

/// On the Node: `observe`, `enforce` or `off`.
pub const MODE: &str = "usher.dev/mode";

/// On the Node: overrides [`MODE`] for the quit capability. On a pod:
/// `"false"` opts out.
pub const QUIT: &str = "usher.dev/quit";

/// On the Node: overrides [`MODE`] for the hold capability.
pub const HOLD: &str = "usher.dev/hold";

/// Written by Istio's users: the port of pilot-agent's status server, `0` for
/// none
/// ([Istio's annotations](https://istio.io/latest/docs/reference/config/annotations/)).
pub const ISTIO_STATUS_PORT: &str = "status.sidecar.istio.io/port";

/// Whether core has a use for a pod's annotation of this key; the others are
/// dropped when the kubelet's answer is read.
pub fn is_read(key: &str) -> bool {
    key.starts_with(PREFIX) || key == ISTIO_STATUS_PORT
}
