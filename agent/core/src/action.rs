//! What usher does: everything that [`crate::Engine::step`] asks for.
//!
//! Every action may be done twice without harm: a sidecar that is asked twice
//! to quit quits once.

use std::{fmt, time::Duration};

use crate::{decision::Decision, event::ContainerKey};

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ask the kubelet for its pods, and answer with [`crate::Event::Pods`] or
    /// [`crate::Event::PodsUnavailable`]. There is never a second one of these
    /// before the answer.
    FetchPods,
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

/// One way to make a sidecar quit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// `POST` to loopback in the pod's network namespace.
    Post {
        /// TCP port.
        port: u16,
        /// Path, beginning with a slash.
        path: &'static str,
    },
    /// A signal to the container's init process.
    Signal(Signal),
}

/// Signals that a recipe may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGTERM`.
    Term,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post { port, path } => write!(formatter, "POST :{port}{path}"),
            Self::Signal(Signal::Term) => formatter.write_str("SIGTERM"),
        }
    }
}
