//! Holding an app's start: its first execve waits until its pod's sidecars are
//! ready.
//!
//! The agent decides (`hold::start`) and says which containers to hold; a process of
//! its own, the *holder*, gives the kernel the answers ([`Holder`] is all that it
//! decides). [`Order`] and [`News`] are what the two say to each other.

mod holder;
pub(crate) mod holding;
mod message;
pub(crate) mod probe_limit;
pub(crate) mod state;

use std::{fmt, time::Duration};

pub use self::{
    holder::{Holder, Released, Verdict},
    message::{InvalidMessage, LONGEST_MESSAGE, News, Order},
};
use crate::{hold::Opened, pod::spec::ProbeKind};

/// A container whose start is to be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub container: String,
    /// How long at most, from the moment that its start waits.
    pub limit: Duration,
    /// What the limit comes from, where that is not the deadline.
    pub probe: Option<Probed>,
}

/// A probe of the kubelet that a start that waits fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    pub kind: ProbeKind,
    /// How soon after the container's start the kubelet may end it for that.
    pub kills_after: Duration,
}

/// What the holder reports about the start of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartResult {
    /// The kernel reports every execve in the container to the holder.
    Marked,
    /// The holder cannot mark the container, for this reason.
    Unable(String),
    Held,
    /// The holder exited, and the kernel released what it held.
    Lost,
    /// The start is not held any more, and will not be.
    Released {
        /// How long it waited, if it did.
        held: Option<Duration>,
        /// Its own limit was the reason.
        at_limit: bool,
        /// It had run before, unheld.
        ran: bool,
    },
}

/// Why a start does not wait any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Why {
    /// The held ports of its pod were opened.
    Opened(Opened),
    /// Its own limit has come, before its probes fail.
    Limit,
    /// The holder ended, and with it everything that it held.
    HolderEnded,
    /// The container ended while it waited.
    ContainerEnded,
}

impl Why {
    /// The word for it in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened(why) => why.as_str(),
            other => other.into_str(),
        }
    }
}

/// Why a start is not held although that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotHeld {
    Node {
        lacks: String,
    },
    /// This container's cannot be.
    Container {
        reason: String,
    },
    /// A probe of the kubelet would end it too soon.
    Probe(Probed),
}

impl fmt::Display for NotHeld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { lacks } => write!(formatter, "the node cannot: {lacks}"),
            Self::Container { reason } => formatter.write_str(reason),
            Self::Probe(Probed { kind, kills_after }) => write!(
                formatter,
                "its {} lets the kubelet end it {kills_after:?} after its start",
                kind.as_str()
            ),
        }
    }
}
