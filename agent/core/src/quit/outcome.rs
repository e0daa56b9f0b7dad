//! The outcome of one attempt to terminate a sidecar.

/// What came of an attempt to make a sidecar quit.
///
/// None of these says that the sidecar ended; only the end of its process does.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Outcome {
    /// It answered with a status of 2xx.
    Accepted,
    /// The connection was closed after the request had been written, before a
    /// whole answer: what Istio 1.31 does now and then while it ends.
    NoReply,
    /// It answered with another status.
    Rejected(u16),
    /// No process listens: not yet, or not any more.
    Refused,
    /// No whole answer within the attempt's time.
    TimedOut,
    Signalled,
    /// The process had already ended, or is not the one it was.
    Gone,
    /// The container has no process of that name.
    NoProcess,
    /// The attempt could not be made.
    Failed(String),
}

impl Outcome {
    /// The outcome's name in metrics.
    pub const fn as_str(&self) -> &'static str {
        self.into_str()
    }

    /// Whether the sidecar's own program has replied.
    pub const fn is_reply(&self) -> bool {
        matches!(self, Self::Accepted | Self::Rejected(_))
    }

    /// Whether the sidecar may have received it.
    pub(crate) const fn is_received(&self) -> bool {
        matches!(self, Self::Accepted | Self::NoReply | Self::Signalled)
    }
}
