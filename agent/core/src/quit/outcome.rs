//! The outcome of one attempt to terminate a sidecar.

/// The outcome of an attempt to terminate a sidecar.
///
/// Even an accepted step does not mean that the sidecar ended; only the end of its process does.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    thiserror::Error,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Outcome {
    /// The sidecar replied with a status of 2xx.
    #[error("was accepted")]
    Accepted,
    /// The connection was closed after the request and before a complete reply, which Istio 1.31 sometimes does while
    /// it exits.
    #[error("was sent and got no reply")]
    NoReply,
    #[error("was answered with status {0}")]
    Rejected(u16),
    /// No process listens: the port is not open yet, or is closed again.
    #[error("found no listener")]
    Refused,
    /// No complete reply within the timeout of the attempt.
    #[error("timed out")]
    TimedOut,
    #[error("was delivered")]
    Signalled,
    /// The process had ended, or its pid belongs to another process.
    #[error("found the process gone")]
    Gone,
    #[error("found no such process in the container")]
    NoProcess,
    #[error("could not be tried: {0}")]
    Failed(String),
}

impl Outcome {
    /// Whether the sidecar's own program has replied.
    pub const fn is_reply(&self) -> bool {
        matches!(self, Self::Accepted | Self::Rejected(_))
    }

    /// Whether the sidecar may have received it.
    pub(crate) const fn is_received(&self) -> bool {
        matches!(self, Self::Accepted | Self::NoReply | Self::Signalled)
    }
}
