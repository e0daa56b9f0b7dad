//! What usher does: everything that [`crate::Engine::step`] asks for.
//!
//! Every action may be done twice without harm: a sidecar that is asked twice
//! to quit quits once.

use std::time::Duration;

use crate::{decision::Decision, event::ContainerKey, step::Step};

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ask the kubelet for its pods, and answer with [`crate::Event::Pods`] or
    /// [`crate::Event::PodsUnavailable`]. There is never a second one of these
    /// before the answer.
    FetchPods,
    /// Ask the API server what a Namespace says, and answer with
    /// [`crate::Event::Namespace`].
    FetchNamespace(String),
    /// Ask this sidecar for its version by `GET` on loopback in the pod's
    /// network namespace, and answer with [`crate::Event::VersionAnswered`].
    AskVersion {
        /// The sidecar.
        key: ContainerKey,
        /// TCP port.
        port: u16,
        /// Path, beginning with a slash.
        path: String,
    },
    /// A request to this sidecar may be due at any moment from now on: open what
    /// it will need, so that nothing but the request stands between the end of
    /// the app and it. No answer is expected, and doing nothing is allowed.
    Prepare(ContainerKey),
    /// Try one step to make a sidecar quit, and answer with
    /// [`crate::Event::Attempted`].
    Attempt {
        /// The sidecar.
        key: ContainerKey,
        /// What to try.
        step: Step,
        /// How long it may take.
        timeout: Duration,
    },
    /// Record a decision: log, metrics, timeline.
    Report(Decision),
}
