//! What clients have sent to a pod: the difference between two lists of its TCP sockets.
//!
//! A connection of a client is one at a port at which the pod listens, from another address than the pod's own. So the leg
//! between a mesh proxy and the app is not counted, and the client's connection to the proxy is. The kubelet probes from
//! an address of the node, as do some clients, such as an ingress with `hostNetwork`: new connections from there are
//! counted separately ([`Sample::from_node`]). A probe sends its request at once, so later bytes are a client's.

mod internal;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde::{Deserialize, Serialize};

use self::internal::Internal;
use crate::node::socket::{Socket, State, plain};

/// What has happened since the sample before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// There is none before: it shows nothing but whether the pod listens.
    pub is_first: bool,
    /// The pod listens for TCP at an address that clients can reach.
    pub listens: bool,
    /// New connections of clients.
    pub connections: u64,
    /// Bytes from clients on connections that existed before.
    pub bytes: u64,
    /// New connections from the node itself: probes, or clients.
    pub from_node: u64,
    /// Connections that are open between containers of the pod. Each counts once, also where a mesh redirects it.
    pub internal: u64,
}

/// Counts what clients send to the TCP sockets of one pod.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    node: Vec<IpAddr>,
    /// Ports of sidecars that serve no clients.
    status_ports: BTreeSet<u16>,
    /// Ports at which the pod has listened.
    listening: BTreeSet<u16>,
    /// The known connections, by cookie.
    known: BTreeMap<u64, Known>,
    internal: Internal,
    /// The number of the current sample.
    round: u64,
    sample: Sample,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    bytes: u64,
    /// The last sample that listed it.
    round: u64,
}

impl Meter {
    /// A meter that knows the addresses of the node.
    pub fn new(node: Vec<IpAddr>) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    /// Connections that it keeps between samples.
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// Begins a sample. Add listeners first, then sockets that have ended, then those that are open.
    pub fn begin(&mut self, status_ports: &[u16]) {
        self.status_ports = status_ports.iter().copied().collect();
        // A sample that failed has no end.
        self.internal = Internal::default();
        self.sample = Sample {
            is_first: self.round == 0,
            ..Sample::default()
        };
        self.round += 1;
    }

    pub fn add_listener(&mut self, socket: &Socket) {
        let port = socket.local.port();
        self.internal.add_listener(port);
        if !socket.local.ip().to_canonical().is_loopback() && !self.status_ports.contains(&port) {
            self.sample.listens = true;
            self.listening.insert(port);
        }
    }

    pub fn add_ended(&mut self, socket: &Socket) {
        if self.is_inbound(socket) {
            let before = self.known.remove(&socket.cookie);
            self.add(socket, before);
        }
    }

    /// Adds a connection. One that is not known is kept if `reserve` finds room for it; otherwise it is new in each sample.
    pub fn add_open(&mut self, socket: &Socket, reserve: impl FnOnce() -> bool) {
        self.internal.add_open(socket);
        if !self.is_inbound(socket) {
            return;
        }
        let before = self.known.get(&socket.cookie).copied();
        self.add(socket, before);
        if before.is_some() || reserve() {
            let known = Known {
                bytes: socket.received.unwrap_or_default(),
                round: self.round,
            };
            self.known.insert(socket.cookie, known);
        }
    }

    /// Ends the sample. `is_incomplete`: notifications of ended sockets were lost, because there were many.
    pub fn end(&mut self, is_incomplete: bool) -> Sample {
        // The notification of an end may come after the list that no longer has the socket.
        let round = self.round;
        self.known.retain(|_cookie, known| known.round + 1 >= round);
        if is_incomplete {
            self.sample.connections += 1;
        }
        // Its sockets are not kept until the next sample.
        self.sample.internal = std::mem::take(&mut self.internal).count();
        if self.sample.is_first {
            return Sample {
                is_first: true,
                listens: self.sample.listens,
                internal: self.sample.internal,
                ..Sample::default()
            };
        }
        self.sample
    }

    fn add(&mut self, socket: &Socket, before: Option<Known>) {
        let sample = &mut self.sample;
        match before {
            None if is_from(&self.node, socket) => sample.from_node += 1,
            None => sample.connections += 1,
            Some(before) => {
                let bytes = socket.received.unwrap_or_default();
                // The kernel counts the peer's FIN as a byte.
                let fin = u64::from(may_have_fin(socket.state));
                sample.bytes += bytes.saturating_sub(before.bytes + fin);
            }
        }
    }

    fn is_inbound(&self, socket: &Socket) -> bool {
        let (local, peer) = (plain(socket.local), plain(socket.peer));
        self.listening.contains(&local.port())
            && socket.has_peer()
            // The redirected outbound connections of an app; those of clients keep the address of the pod.
            && !local.ip().is_loopback()
            && !peer.ip().is_loopback()
            && peer.ip() != local.ip()
    }
}

/// A link-local address is of this node as well: Istio's ambient mode rewrites the source of probes to one.
fn is_from(node: &[IpAddr], socket: &Socket) -> bool {
    let peer = plain(socket.peer).ip();
    let is_link_local = match peer {
        IpAddr::V4(peer) => peer.is_link_local(),
        IpAddr::V6(peer) => peer.is_unicast_link_local(),
    };
    is_link_local || node.contains(&peer)
}

/// A socket that has ended has no state any more.
fn may_have_fin(state: State) -> bool {
    !matches!(
        state,
        State::Established | State::FinWait1 | State::FinWait2
    )
}

#[cfg(test)]
mod tests;
