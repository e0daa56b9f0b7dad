//! Connections between the containers of a pod.
//!
//! Such a connection has two sockets in the pod's namespace. The accepted one is counted: its port is that of a listener,
//! and its peer is the address of another socket. A mesh redirects connections of the app to its proxy, so the app's socket
//! has the original destination, while the proxy's socket has the address of the app's. Connections within one container are
//! not counted; cgroups distinguish containers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use crate::node::socket::{Socket, State, plain};

/// The sockets that one sample compares. Those beyond it are not counted.
const MOST: usize = 8192;
/// The root of the hierarchy, where sockets are under cgroup version 1.
const ROOT: u64 = 1;

#[derive(Debug, Clone, Default)]
pub(super) struct Internal {
    listening: BTreeSet<u16>,
    /// The cgroups of the open sockets, by local address.
    cgroups: BTreeMap<SocketAddr, BTreeSet<u64>>,
    /// Local address, peer and cgroup of the open sockets.
    open: Vec<(SocketAddr, SocketAddr, u64)>,
}

impl Internal {
    pub(super) fn add_listener(&mut self, port: u16) {
        self.listening.insert(port);
    }

    pub(super) fn add_open(&mut self, socket: &Socket) {
        if socket.state == State::Established && self.open.len() < MOST {
            let (local, peer) = (plain(socket.local), plain(socket.peer));
            self.cgroups.entry(local).or_default().insert(socket.cgroup);
            self.open.push((local, peer, socket.cgroup));
        }
    }

    pub(super) fn count(&self) -> u64 {
        let accepted = self
            .open
            .iter()
            .filter(|(local, _peer, _cgroup)| self.listening.contains(&local.port()));
        let is_internal = |(_local, peer, cgroup): &&(SocketAddr, SocketAddr, u64)| {
            self.cgroups.get(peer).is_some_and(|others| {
                // Whether another one is in it: the first or the last differs.
                let differs = |other: Option<&u64>| other.is_some_and(|other| other != cgroup);
                *cgroup <= ROOT || differs(others.first()) || differs(others.last())
            })
        };
        accepted.filter(is_internal).count() as u64
    }
}
