//! A program that holds sockets open until it is terminated.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What it holds. It says `holding` when all of it is there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Holding {
    /// Name of its process; none leaves it as it is.
    pub process: Option<String>,
    /// Where it listens; what comes is accepted and kept.
    pub listens: Vec<SocketAddr>,
    /// Where it listens and accepts nothing.
    pub ignores: Vec<SocketAddr>,
    /// Connections that are made and kept, and how many of each.
    pub connects: Vec<(SocketAddr, usize)>,
    /// Connections that are begun and not waited for.
    pub begins: Vec<SocketAddr>,
    /// Datagram sockets, with what they are connected to.
    pub datagrams: Vec<(SocketAddr, Option<SocketAddr>)>,
}

impl Holding {
    /// Also listens there, and keeps what comes.
    #[must_use]
    pub fn listening(mut self, at: &str) -> Self {
        self.listens.push(address(at));
        self
    }

    /// Also listens there, and accepts nothing.
    #[must_use]
    pub fn ignoring(mut self, at: &str) -> Self {
        self.ignores.push(address(at));
        self
    }

    /// Also has so many connections there.
    #[must_use]
    pub fn connected(mut self, to: &str, count: usize) -> Self {
        self.connects.push((address(to), count));
        self
    }

    /// Also begins a connection there.
    #[must_use]
    pub fn connecting(mut self, to: &str) -> Self {
        self.begins.push(address(to));
        self
    }

    /// Also has a datagram socket there.
    #[must_use]
    pub fn datagram(mut self, at: &str, to: Option<&str>) -> Self {
        self.datagrams.push((address(at), to.map(address)));
        self
    }

    /// Its process has this name.
    #[must_use]
    pub fn called(mut self, process: &str) -> Self {
        self.process = Some(process.to_owned());
        self
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}
