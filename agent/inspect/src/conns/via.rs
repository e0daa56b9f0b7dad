//! Finds the path of a connection through the mesh.
//!
//! A mesh redirects an app's connections to a port of its proxy, in the pod's network namespace, and keeps the source address
//! and port. So both ends are sockets of the namespace: the app's socket, and one that the proxy accepted, with the app's
//! local address as its peer. If the app's peer is the proxy's local address, the app connected to the proxy itself;
//! otherwise the connection was redirected. Inbound traffic through the proxy is a connection from the proxy to the app.
//!
//! An app's connection without another end in the namespace is direct. The exceptions are unknown, see [`Why`].

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

use usher_core::node::socket::{Protocol, Socket, State, plain};

use super::{Input, Owner, Role, owner::Listeners};

/// Limit of sockets compared for one connection. Only connections that share an end have more, and the first ones suffice.
const MAX_CANDIDATES: usize = 64;

/// The path of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Not a connection, or not one of an app.
    None,
    Direct,
    Through {
        /// The container that accepted it; None outside of the pod.
        container: Option<usize>,
        /// The port that accepted it.
        port: u16,
    },
    From(Option<usize>),
    To {
        /// The container; None for a process outside of the pod.
        container: Option<usize>,
        port: u16,
    },
    /// The sidecar's end of a connection of this container.
    For(usize),
    /// Not known from the sockets.
    Unknown(Why),
}

/// Why the path of a connection is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Why {
    #[strum(serialize = "the connection is not established yet")]
    Unanswered,
    #[strum(serialize = "the roles of the containers are not known")]
    Roles,
    #[strum(serialize = "no process holds the socket")]
    Closed,
    /// One of these processes may hold one end.
    #[strum(serialize = "the file descriptors of some processes cannot be read")]
    Unseen,
    #[strum(serialize = "its other end in this pod is closed")]
    OtherEndClosed,
    #[strum(serialize = "the connection is closing, and its other end may have been in this pod")]
    OtherEndGone,
    #[strum(serialize = "some sockets are missing")]
    Partial,
    /// The kernel chose the other ports.
    #[strum(
        serialize = "some redirected connections have other source ports, and this may be one of them"
    )]
    Renumbered,
    /// The kernel does not report where the datagrams of a socket are redirected.
    #[strum(serialize = "redirected datagrams cannot be traced")]
    Datagrams,
}

/// One end, the other end, and the index of the socket; sorted.
struct Index(Vec<(SocketAddr, SocketAddr, u32)>);

impl Index {
    fn new(ends: impl Iterator<Item = (SocketAddr, SocketAddr, usize)>) -> Self {
        let mut entries: Vec<_> = ends
            .map(|(first, second, place)| {
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                (plain(first), plain(second), place)
            })
            .collect();
        entries.sort_unstable();
        Self(entries)
    }

    /// The sockets with this first end, up to the limit.
    fn at(&self, first: SocketAddr) -> impl Iterator<Item = (SocketAddr, usize)> {
        let start = self.0.partition_point(|entry| entry.0 < first);
        let entries = self.0[start..].iter().take(MAX_CANDIDATES);
        let mine = entries.take_while(move |entry| entry.0 == first);
        mine.map(|(_, second, place)| (*second, *place as usize))
    }

    /// The socket with exactly these ends.
    fn exact(&self, first: SocketAddr, second: SocketAddr) -> Option<usize> {
        let wanted = (first, second);
        let start = self.0.partition_point(|entry| (entry.0, entry.1) < wanted);
        let entry = self.0.get(start)?;
        ((entry.0, entry.1) == wanted).then_some(entry.2 as usize)
    }
}

/// Indexes over the sockets of an input.
pub(super) struct ConnectionIndex<'a> {
    input: &'a Input,
    owners: &'a [Owner],
    listeners: Listeners,
    by_local: Index,
    by_peer: Index,
    /// Local addresses of redirected connections with another source port.
    renumbered: Vec<IpAddr>,
}

impl<'a> ConnectionIndex<'a> {
    pub(super) fn new(input: &'a Input, owners: &'a [Owner]) -> Self {
        let connections = || {
            let sockets = input.sockets.iter().enumerate();
            sockets.filter(|(_, socket)| is_connection(socket))
        };
        let by_local = Index::new(connections().map(|(at, end)| (end.local, end.peer, at)));
        let by_peer = Index::new(connections().map(|(at, end)| (end.peer, end.local, at)));
        let mut index = Self {
            input,
            owners,
            listeners: Listeners::new(&input.sockets),
            by_local,
            by_peer,
            renumbered: Vec::new(),
        };
        index.renumbered = index.find_renumbered();
        index
    }

    pub(super) fn via(&self, place: usize) -> Via {
        let socket = &self.input.sockets[place];
        if socket.waits() || !socket.has_peer() {
            return Via::None;
        }
        if socket.protocol == Protocol::Udp {
            return self.datagrams(place);
        }
        match (self.owners[place], self.input.role(self.owners[place])) {
            (Owner::None, _) => Via::Unknown(Why::Closed),
            (Owner::Unseen, _) => Via::Unknown(Why::Unseen),
            (_, Some(Role::App)) => self.of_app(place),
            (_, Some(Role::Sidecar)) => self.of_sidecar(place),
            (_, Some(Role::Unknown)) => Via::Unknown(Why::Roles),
            (_, Some(Role::Sandbox) | None) => Via::None,
        }
    }

    fn of_app(&self, place: usize) -> Via {
        let socket = &self.input.sockets[place];
        let (local, peer) = (plain(socket.local), plain(socket.peer));
        if let Some(other) = self.by_peer.exact(local, peer) {
            return self.local_peer(place, other);
        }
        // Only outgoing connections are redirected.
        if !self.was_accepted(socket)
            && let Some((end, other)) = self.redirected(local)
        {
            return match self.owners[other] {
                Owner::None => Via::Unknown(Why::OtherEndClosed),
                Owner::Unseen => Via::Unknown(Why::Unseen),
                owner => Via::Through {
                    container: owner.container(),
                    port: end.port(),
                },
            };
        }
        self.without_other_end(socket)
    }

    /// The path of a connection whose two ends are both in this namespace.
    fn local_peer(&self, place: usize, other: usize) -> Via {
        let socket = &self.input.sockets[place];
        let owner = self.owners[other];
        let container = owner.container();
        match self.input.role(owner) {
            _ if owner == Owner::None => Via::Unknown(Why::OtherEndClosed),
            _ if owner == Owner::Unseen => Via::Unknown(Why::Unseen),
            Some(Role::Sidecar) | None if self.was_accepted(socket) => Via::From(container),
            Some(Role::Sidecar) | None => Via::To {
                container,
                port: socket.peer.port(),
            },
            Some(Role::Unknown) => Via::Unknown(Why::Roles),
            Some(Role::App | Role::Sandbox) => Via::Direct,
        }
    }

    fn without_other_end(&self, socket: &Socket) -> Via {
        let local = socket.local.ip().to_canonical();
        match socket.state {
            State::SynSent => Via::Unknown(Why::Unanswered),
            _ if self.input.is_partial => Via::Unknown(Why::Partial),
            State::Established | State::SynReceived => {
                if self.was_accepted(socket) {
                    Via::Direct
                } else if socket.peer.ip().to_canonical().is_loopback() {
                    Via::Unknown(Why::OtherEndGone)
                } else if self.renumbered.contains(&local) {
                    Via::Unknown(Why::Renumbered)
                } else {
                    Via::Direct
                }
            }
            _ => Via::Unknown(Why::OtherEndGone),
        }
    }

    fn of_sidecar(&self, place: usize) -> Via {
        let socket = &self.input.sockets[place];
        let (local, peer) = (plain(socket.local), plain(socket.peer));
        let exact = self.by_local.exact(peer, local);
        let other = exact.or_else(|| {
            let mut ends = self.by_local.at(peer);
            ends.find(|(far, _)| self.by_peer.exact(peer, *far).is_none())
                .map(|(_, other)| other)
        });
        let owner = other.map(|other| self.owners[other]);
        match owner.and_then(|owner| Some((owner.container()?, self.input.role(owner)?))) {
            Some((container, Role::App)) => Via::For(container),
            _ => Via::None,
        }
    }

    fn datagrams(&self, place: usize) -> Via {
        let socket = &self.input.sockets[place];
        if self.input.role(self.owners[place]) != Some(Role::App) {
            return Via::None;
        }
        let (input, protocol) = (self.input, Protocol::Udp);
        let listener = self
            .listeners
            .container(input, self.owners, protocol, socket.peer);
        let is_sidecar = |place: &usize| input.containers[*place].role == Role::Sidecar;
        match listener.filter(is_sidecar) {
            Some(container) if socket.peer.ip().to_canonical().is_loopback() => Via::To {
                container: Some(container),
                port: socket.peer.port(),
            },
            _ => Via::Unknown(Why::Datagrams),
        }
    }

    /// A socket with this peer, and with a local address that no socket here connected to: the connection was redirected to
    /// it.
    fn redirected(&self, local: SocketAddr) -> Option<(SocketAddr, usize)> {
        let mut ends = self.by_peer.at(local);
        ends.find(|(end, _)| self.by_local.exact(local, *end).is_none())
    }

    fn was_accepted(&self, socket: &Socket) -> bool {
        self.listeners
            .has(self.input, socket.protocol, socket.local)
    }

    /// When two connections with the same source port are redirected to one port of the proxy, the kernel gives the second
    /// one another source port. Its two ends then cannot be matched. Connections that share a source port explain some of
    /// them, which are not counted.
    fn find_renumbered(&self) -> Vec<IpAddr> {
        let mut surplus: HashMap<IpAddr, i64> = HashMap::new();
        for (place, socket) in self.input.sockets.iter().enumerate() {
            let carries = match self.owners[place] {
                Owner::Outside | Owner::Unseen => true,
                owner => self.input.role(owner) == Some(Role::Sidecar),
            };
            let (local, peer) = (plain(socket.local), plain(socket.peer));
            let is_other_end = carries && is_connection(socket) && self.was_accepted(socket);
            if !is_other_end || self.by_local.exact(peer, local).is_some() {
                continue;
            }
            let redirected = self
                .by_local
                .at(peer)
                .filter(|(far, _)| self.by_peer.exact(peer, *far).is_none());
            let sources = i64::try_from(redirected.count()).unwrap_or(i64::MAX);
            *surplus.entry(peer.ip()).or_default() += sources.saturating_sub(1);
        }
        let missing = surplus.into_iter().filter(|(_, sources)| *sources < 0);
        missing.map(|(address, _)| address).collect()
    }
}

fn is_connection(socket: &Socket) -> bool {
    socket.protocol == Protocol::Tcp && !socket.waits() && socket.has_peer()
}
