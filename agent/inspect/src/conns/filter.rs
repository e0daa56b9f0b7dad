//! Which sockets are shown.

use usher_core::node::socket::{Protocol, State};

use super::Row;

/// What is to be shown. Without anything: listeners and connections, but not
/// those that are over or that nobody can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Also what is left out otherwise.
    pub all: bool,
    /// Only what waits for others.
    pub listening: bool,
    /// Only in these states; empty for any.
    pub states: Vec<State>,
    /// Only with one of these ports at either end; empty for any.
    pub ports: Vec<u16>,
    /// Only of these containers; empty for any.
    pub containers: Vec<String>,
    /// Only what speaks one of these; empty for any.
    pub protocols: Vec<Protocol>,
}

/// Why a socket is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    /// Something else was asked for.
    Filtered,
    /// Its connection is over, and nobody asked for those.
    Over,
    /// It has neither an end that others could reach nor a peer.
    Unbound,
}

impl Filter {
    /// Why this socket is not to be shown; None when it is.
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
        // Who asks for a state wants to see it.
        if self.all || !self.states.is_empty() {
            return None;
        }
        match row.state {
            State::TimeWait => Some(Hidden::Over),
            State::Unconnected if row.local.port() == 0 => Some(Hidden::Unbound),
            _ => None,
        }
    }
}

fn among<T>(wanted: &[T], fits: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(fits)
}
