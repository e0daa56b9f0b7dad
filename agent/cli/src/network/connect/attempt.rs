//! A connection to one address, and its path through the mesh.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use nix::errno::Errno;
use tokio::{net::TcpStream, time::timeout};
use usher_client::error_chain::chain;
use usher_inspect::{
    connect::{Attempt, Outcome, Reaction},
    conns::{How, Way},
};
use usher_sys::net::{netns::Netns, tcp};

use crate::{
    data_source::node::{Node, Target},
    network::{conns, resolver},
};

/// Time for a sidecar to close a connection that its destination does not accept.
const REACTION: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pod<'a> {
    pub(super) node: &'a Node,
    pub(super) target: &'a Target,
    pub(super) netns: &'a Netns,
}

impl Pod<'_> {
    /// Connects to an address. Adds the unknown parts of the path to `gaps`.
    pub(super) async fn connect(
        &self,
        address: SocketAddr,
        limit: Duration,
        gaps: &mut Vec<String>,
    ) -> Attempt {
        let start = Instant::now();
        let connected = timeout(limit, self.stream(address)).await;
        let time_us = resolver::micros(start.elapsed());
        let failed = |outcome, error: Option<&io::Error>| Attempt {
            address,
            outcome,
            error: error.map(|error| chain(error)),
            time_us,
            via: None,
            reaction: None,
        };
        match connected {
            Err(_elapsed) => failed(Outcome::Timeout, None),
            Ok(Err(error)) => failed(outcome_of(&error), Some(&error)),
            Ok(Ok(stream)) => {
                let via = self.path(&stream, address, gaps).await;
                let is_redirected = via.as_ref().is_some_and(|way| way.how == How::Through);
                let reaction = if is_redirected {
                    Some(reaction(&stream).await)
                } else {
                    None
                };
                Attempt {
                    via,
                    reaction,
                    ..failed(Outcome::Connected, None)
                }
            }
        }
    }

    async fn stream(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let family = resolver::family(address);
        let socket = self.netns.tcp_socket(family).map_err(io::Error::other)?;
        tcp::connect(socket, address.ip(), address.port()).await
    }

    /// The path of a connection; None in the node's network, where only the pod's own sockets are read.
    async fn path(
        &self,
        stream: &TcpStream,
        address: SocketAddr,
        gaps: &mut Vec<String>,
    ) -> Option<Way> {
        if self.node.is_own_network(self.netns) {
            return None;
        }
        let local = stream.local_addr().ok()?;
        match conns::sockets_of(self.node, self.target) {
            Ok(sockets) => {
                let way = sockets.path_of(local, address);
                gaps.extend(sockets.gaps);
                Some(way)
            }
            Err(failure) => {
                gaps.push(format!(
                    "the path of the connection is unknown: {}",
                    failure.text
                ));
                None
            }
        }
    }
}

fn outcome_of(error: &io::Error) -> Outcome {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ECONNREFUSED) => Outcome::Refused,
        Some(Errno::ETIMEDOUT) => Outcome::Timeout,
        Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::EADDRNOTAVAIL) => {
            Outcome::Unreachable
        }
        Some(Errno::EPERM | Errno::EACCES) => Outcome::Prohibited,
        _ => Outcome::Failed,
    }
}

/// What the sidecar does with a connection that it has accepted.
async fn reaction(stream: &TcpStream) -> Reaction {
    let mut first = [0];
    match timeout(REACTION, stream.peek(&mut first)).await {
        Err(_elapsed) => Reaction::Open,
        Ok(Ok(1..)) => Reaction::Data,
        Ok(Ok(0) | Err(_)) => Reaction::Closed,
    }
}
