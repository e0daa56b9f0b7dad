//! Annotation keys, in one place.

/// Everything that usher reads from users begins with this.
pub const PREFIX: &str = "usher.dev/";

/// On the Node: `observe`, `enforce` or `off`.
pub const MODE: &str = "usher.dev/mode";

/// On the Node: overrides [`MODE`] for the quit capability. On a pod or a
/// Namespace: `"false"` opts out.
pub const QUIT: &str = "usher.dev/quit";

/// On the Node: overrides [`MODE`] for the hold capability.
pub const HOLD: &str = "usher.dev/hold";

/// On a pod: which of its containers are sidecars, or apps, whatever recipes
/// say.
pub const SIDECARS: &str = "usher.dev/sidecars";

/// On a pod or a Namespace: wait between the end of the last app and the first
/// request.
pub const QUIT_DELAY: &str = "usher.dev/quit-delay";

/// On a pod or a Namespace: how long sidecars drain before they are asked to
/// quit.
pub const DRAIN: &str = "usher.dev/drain";

/// On a pod or a Namespace: whether a step that makes a good pod a failed one
/// may be taken where nothing else ends a sidecar.
pub const SPOIL: &str = "usher.dev/spoil";
