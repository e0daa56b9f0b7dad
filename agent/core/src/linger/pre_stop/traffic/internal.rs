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
    /// The open sockets by local address, with peer and cgroup.
    open: BTreeMap<SocketAddr, Vec<(SocketAddr, u64)>>,
    added: usize,
}

impl Internal {
    pub(super) fn add_listener(&mut self, port: u16) {
        self.listening.insert(port);
    }

    pub(super) fn add_open(&mut self, socket: &Socket) {
        if socket.state == State::Established && self.added < MOST {
            self.added += 1;
            let of_address = self.open.entry(plain(socket.local)).or_default();
            of_address.push((plain(socket.peer), socket.cgroup));
        }
    }

    pub(super) fn count(&self) -> u64 {
        let accepted = self
            .open
            .iter()
            .filter(|(local, _sockets)| self.listening.contains(&local.port()))
            .flat_map(|(_local, sockets)| sockets);
        let is_internal = |(peer, cgroup): &&(SocketAddr, u64)| {
            let mut others = self.open.get(peer).into_iter().flatten();
            others.any(|(_peer, other)| other != cgroup || *cgroup <= ROOT)
        };
        accepted.filter(is_internal).count() as u64
    }
}
