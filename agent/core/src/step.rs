//! Single ways to make a sidecar quit; a recipe's ladder is a list of these.

use std::fmt;

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
