//! Holding an app's start: its first exec waits until its pod's sidecars are ready.
//!
//! The agent decides which containers to hold (`holding`). A process of its own, the *holder*, replies to the kernel
//! ([`Holder`] has its decisions). [`Order`] and [`News`] are the messages between both.

mod denials;
mod holder;
pub(crate) mod holding;
mod message;
pub(crate) mod probe_limit;
pub(crate) mod state;

use std::time::Duration;

pub use self::{
    denials::Denials,
    holder::{Holder, Release, Verdict},
    message::{InvalidMessage, LONGEST_MESSAGE, News, Order},
};
use crate::{hold, pod::spec::ProbeKind};

/// A start to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub container: String,
    /// Limit of the hold, from the moment that the start waits.
    pub limit: Duration,
    /// The origin of the limit, where that is not the deadline.
    pub probe: Option<Probed>,
}

/// A probe of the kubelet that fails while the start waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its {} lets the kubelet end it {kills_after:?} after its start", .kind.as_str())]
pub struct Probed {
    pub kind: ProbeKind,
    /// How soon after the container's start the kubelet may end it because of this probe.
    pub kills_after: Duration,
}

/// What the holder reports about the start of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartResult {
    /// The kernel reports every exec in the container to the holder.
    Marked,
    /// The holder cannot mark the container, for this reason.
    Unable(String),
    /// The kernel denied an exec in the container, because it could not open the program for the holder, for this
    /// reason.
    Denied(String),
    Held,
    /// The holder exited, and the kernel released the start.
    Lost,
    Released {
        /// For how long it waited, if it did.
        held: Option<Duration>,
        /// The reason is its own limit.
        at_limit: bool,
        /// The program had started before, unheld.
        ran: bool,
    },
}

/// Why a start no longer waits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Why {
    /// The connections of its pod were released.
    #[error("{0}")]
    Released(hold::Released),
    #[error(
        "its limit has passed: it starts before its probes fail, and its connections stay held"
    )]
    Limit,
    #[error("the process that held it ended: it starts, and its connections stay held")]
    HolderEnded,
    #[error("the container ended while its start was held")]
    ContainerEnded,
}

impl Why {
    /// Label for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released(why) => why.into_str(),
            other => other.into_str(),
        }
    }
}

/// Why a start is not held although the pod requests it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    #[error("the node cannot hold starts: {lacks}")]
    Node { lacks: String },
    /// An obstacle in this container.
    #[error("{reason}")]
    Container { reason: String },
    #[error(
        "its exec failed with EPERM, because the kernel could not open the program for usher ({reason})"
    )]
    Denied { reason: String },
    /// A probe of the kubelet would end the container too soon.
    #[error("{0}")]
    Probe(Probed),
}
