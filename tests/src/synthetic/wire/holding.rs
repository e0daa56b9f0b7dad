//! A program that holds sockets open until it is terminated.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The held sockets. It prints `holding` when all of them are open.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Holding {
    /// The name of its process; None leaves it unchanged.
    pub process: Option<String>,
    /// Listening addresses; connections are accepted and kept.
    pub listens: Vec<SocketAddr>,
    /// Listening addresses without an accept.
    pub ignores: Vec<SocketAddr>,
    /// Connections that are established and kept, with a number for each.
    pub connects: Vec<(SocketAddr, usize)>,
    /// Connections that are started and not waited for.
    pub begins: Vec<SocketAddr>,
    /// Datagram sockets, with their peers.
    pub datagrams: Vec<(SocketAddr, Option<SocketAddr>)>,
}

impl Holding {
    /// Also listens at this address, and keeps connections.
    #[must_use]
    pub fn listening(mut self, at: &str) -> Self {
        self.listens.push(address(at));
        self
    }

    /// Also listens at this address, and accepts nothing.
    #[must_use]
    pub fn ignoring(mut self, at: &str) -> Self {
        self.ignores.push(address(at));
        self
    }

    /// Also has this number of connections to an address.
    #[must_use]
    pub fn connected(mut self, to: &str, count: usize) -> Self {
        self.connects.push((address(to), count));
        self
    }

    /// Also starts a connection to an address.
    #[must_use]
    pub fn connecting(mut self, to: &str) -> Self {
        self.begins.push(address(to));
        self
    }

    /// Also has a datagram socket at an address.
    #[must_use]
    pub fn datagram(mut self, at: &str, to: Option<&str>) -> Self {
        self.datagrams.push((address(at), to.map(address)));
        self
    }

    /// Sets the name of its process.
    #[must_use]
    pub fn called(mut self, process: &str) -> Self {
        self.process = Some(process.to_owned());
        self
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}
