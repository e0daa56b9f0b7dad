//! The ways to get an app through its sidecar's start.

use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Capture, Client, Listen, Wait};
use usher_tests::synthetic::{ContainerSpec, PodSpec};

/// A remote address without a listener.
pub(crate) const FAR: &str = "10.7.7.7:8080";
/// Drops redirected packets, as a hold without copies would.
const DROP: &str = "table inet plain {
 chain hold {
  type filter hook output priority -90; policy accept;
  tcp dport 15001 drop
 }
}
";

/// One alternative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arm {
    /// The agent holds the app's connections.
    Usher,
    /// `pilot-agent wait` wraps the app's command.
    PilotAgent,
    /// A loop that sleeps for a second wraps it.
    EverySecond,
    /// Packets are dropped until the sidecar is ready.
    Retransmission,
}

impl Arm {
    pub(crate) const ALL: [Self; 4] = [
        Self::Usher,
        Self::PilotAgent,
        Self::EverySecond,
        Self::Retransmission,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Usher => "usher",
            Self::PilotAgent => "pilot-agent wait (500 ms)",
            Self::EverySecond => "loop of 1 s",
            Self::Retransmission => "retransmission alone",
        }
    }

    /// A pod with a sidecar that becomes ready on command.
    pub(crate) fn pod(self, name: &str, client: Client) -> PodSpec {
        let client = match self {
            Self::Usher | Self::Retransmission => client,
            Self::PilotAgent => client.after(Wait::PILOT_AGENT),
            Self::EverySecond => client.after(Wait::EVERY_SECOND),
        };
        let spec = PodSpec::new(name)
            .with(ContainerSpec::client("app", client))
            .with(mesh::proxy(Listen::OnCommand))
            .captured(Capture::default());
        match self {
            Self::Usher => spec.announced(),
            Self::PilotAgent | Self::EverySecond => spec,
            Self::Retransmission => spec.filtered(DROP),
        }
    }

    /// The script for the pod when its sidecar is ready.
    pub(crate) const fn release(self) -> Option<&'static str> {
        match self {
            Self::Retransmission => Some("delete table inet plain\n"),
            Self::Usher | Self::PilotAgent | Self::EverySecond => None,
        }
    }
}
