//! The listening containers of a pod, for the comments of a capture.

use std::{collections::BTreeMap, fmt};

use usher_core::node::packet::{Direction, Packet};
use usher_inspect::capture::line::{End, Protocol, Summary};
use usher_sys::pods::proc::ProcRoot;

use crate::{data_source::node::Target, network::listener};

/// TCP flags of the first packet of a connection, and the mask that excludes the SYN-ACK.
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;

/// The listeners at the start of the capture.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<u16, Vec<String>>);

impl Owners {
    pub(super) fn read(proc: &ProcRoot, target: &Target) -> Self {
        Self(listener::listeners(proc, target))
    }

    /// The destination container, for the first packet of a connection.
    pub(super) fn comment(&self, packet: &Packet<'_>) -> Option<String> {
        // An outgoing connection may have the port of one of the pod's listeners as the port of another host.
        if self.0.is_empty() || packet.direction() == Some(Direction::Out) {
            return None;
        }
        let summary = Summary::of(packet);
        let (Protocol::Tcp { flags, .. }, Some((_, End::Port(to)))) =
            (summary.protocol, summary.ends)
        else {
            return None;
        };
        if flags & SYN_ACK != SYN {
            return None;
        }
        let names = self.0.get(&to.port()).filter(|names| !names.is_empty())?;
        Some(format!("to {}'s port {}", names.join(" and "), to.port()))
    }
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no TCP listeners");
        }
        let ports = listener::texts(&self.0);
        write!(f, "TCP listeners: {}", ports.join(", "))
    }
}
