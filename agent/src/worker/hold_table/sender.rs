//! Injects the copies of SYNs, so that their connections continue before their next retransmission.

use usher_client::error_chain::chain;
use usher_core::{base::time::Timestamp, hold::syn::Held};
use usher_sys::net::{
    inject::Injector,
    netns::Netns,
    sockdiag::{Sockets, State},
};

use super::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Injection {
    Injected,
    /// The copy was not injected, and the connection still waits.
    Skipped,
    /// The connection was no longer waiting.
    TooLate,
}

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

    /// Injects a copy if its connection still waits.
    pub(super) fn send(&mut self, held: &Held, now: Timestamp) -> Injection {
        let connection = held.syn.connection();
        match self.sockets.state(connection) {
            Ok(Some(State::SynSent)) => {}
            Ok(_) => return Injection::TooLate,
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not check whether a connection waits; injecting its copy");
            }
        }
        let packet = held.syn.prepared_for_injection(now.since(held.arrived));
        match self.injector.send(&packet, connection.destination) {
            Ok(true) => Injection::Injected,
            // The table dropped it, because its port is still held.
            Ok(false) => Injection::Skipped,
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not inject a copy; its connection continues with its next retransmission");
                Injection::Skipped
            }
        }
    }
}
