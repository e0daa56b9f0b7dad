//! Selects the sockets to list.

use usher_core::node::socket::{Protocol, State};

use super::Row;

/// The sockets to list. By default: listeners and connections, but neither closed connections nor sockets without an
/// address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub all: bool,
    /// Only listeners, and datagram sockets without a peer.
    pub listening: bool,
    /// Only in these states; empty for any.
    pub states: Vec<State>,
    /// Only sockets with one of these ports at either end; empty for any.
    pub ports: Vec<u16>,
    /// Only sockets of these containers; empty for any.
    pub containers: Vec<String>,
    /// Only these protocols; empty for any.
    pub protocols: Vec<Protocol>,
}

/// Why a socket is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    Filtered,
    Closed,
    /// The socket has neither an address nor a peer.
    Unbound,
}

impl Filter {
    /// Why this socket is not listed; None if it is.
    pub(super) fn hides(&self, row: &Row) -> Option<Hidden> {
        let peer = row.peer.map(|peer| peer.port());
        let fits = (!self.listening || row.waits())
            && among(&self.states, |state| *state == row.state)
            && among(&self.protocols, |protocol| *protocol == row.protocol)
            && among(&self.ports, |port| {
                row.local.port() == *port || peer == Some(*port)
            })
            && among(&self.containers, |wanted| {
                row.container.as_ref() == Some(wanted)
            });
        if !fits {
            return Some(Hidden::Filtered);
        }
        // A requested state overrides the defaults.
        if self.all || !self.states.is_empty() {
            return None;
        }
        match row.state {
            State::TimeWait => Some(Hidden::Closed),
            State::Unconnected if row.local.port() == 0 => Some(Hidden::Unbound),
            _ => None,
        }
    }
}

fn among<T>(wanted: &[T], fits: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(fits)
}
