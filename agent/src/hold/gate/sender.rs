//! Sends copies of connections that wait, so that they go at once and not with their next retransmission.

use usher_client::error_chain::chain;
use usher_core::{base::time::Timestamp, hold::syn::Held};
use usher_sys::net::{
    inject::Injector,
    netns::Netns,
    sockdiag::{Sockets, State},
};

use super::Error;

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// It went out.
    Out,
    /// It did not; the connection still waits.
    Not,
    /// Nor was it to: the connection had not waited any more.
    Late,
}

/// Sends copies of connections that still wait.
#[derive(Debug)]
pub(super) struct Sender {
    injector: Injector,
    sockets: Sockets,
}

impl Sender {
    pub(super) fn open(netns: &Netns) -> Result<Self, Error> {
        Ok(Self {
            injector: Injector::open(netns)?,
            sockets: Sockets::open(netns)?,
        })
    }

    /// Sends a copy, if its connection still waits.
    pub(super) fn send(&mut self, held: &Held, now: Timestamp) -> Sent {
        let connection = held.syn.connection();
        match self.sockets.state(connection) {
            Ok(Some(State::SynSent)) => {}
            Ok(_) => return Sent::Late,
            Err(error) => {
                tracing::debug!(error = %chain(&error), "sent a copy without knowing whether its connection waits");
            }
        }
        let packet = held.syn.prepared_for_injection(now.since(held.arrived));
        match self.injector.send(&packet, connection.destination) {
            Ok(true) => Sent::Out,
            // It waits at another door.
            Ok(false) => Sent::Not,
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not send a copy; its connection goes on by itself");
                Sent::Not
            }
        }
    }
}
