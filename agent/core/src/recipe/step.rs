//! Single ways to act on a sidecar; a ladder is a list of these.

mod exit_code;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::exit_code::ExitCode;

/// One action on a sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A request to loopback in the pod's network namespace.
    Request(Request),
    /// A signal to a process of the container.
    Signal {
        signal: Signal,
        /// Name of the process (`/proc/<pid>/comm`); None for the container's init process.
        process: Option<String>,
    },
}

/// An HTTP request without a body.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    pub method: Method,
    pub port: u16,
    /// Path and query, beginning with a slash.
    pub path: String,
    /// Headers whose values are in the environment of the sidecar only.
    pub headers: Vec<Header>,
}

/// A header whose value is in the environment of the sidecar's own process, such as Dapr's API token. It is omitted
/// where the variable is absent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Header {
    pub name: String,
    pub env: String,
}

/// Methods that a recipe may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
pub enum Method {
    Get,
    Post,
}

/// Signals that a recipe may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE", prefix = "SIG", const_into_str)]
pub enum Signal {
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGINT")]
    Int,
    #[serde(rename = "SIGQUIT")]
    Quit,
    #[serde(rename = "SIGHUP")]
    Hup,
    #[serde(rename = "SIGUSR1")]
    Usr1,
    #[serde(rename = "SIGUSR2")]
    Usr2,
    /// `SIGKILL`: never in a recipe, only where the configuration allows it.
    #[serde(skip)]
    Kill,
}

impl Step {
    /// A signal to the container's init process.
    pub const fn signal(signal: Signal) -> Self {
        Self::Signal {
            signal,
            process: None,
        }
    }
}

impl Signal {
    /// The signals that may be requested by name.
    pub const NAMED: [Self; 6] = [
        Self::Term,
        Self::Int,
        Self::Quit,
        Self::Hup,
        Self::Usr1,
        Self::Usr2,
    ];
}

/// Whether a text is valid as path and query of a request line.
pub(crate) fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.len() <= 1024 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(request) => request.fmt(formatter),
            Self::Signal {
                signal,
                process: None,
            } => formatter.write_str(signal.into_str()),
            Self::Signal {
                signal,
                process: Some(process),
            } => write!(formatter, "{} to {process}", signal.into_str()),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} :{}{}",
            self.method.into_str(),
            self.port,
            self.path
        )
    }
}
