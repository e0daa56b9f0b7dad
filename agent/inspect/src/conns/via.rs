//! Which way a connection goes.
//!
//! A mesh redirects an app's connections to a port of its proxy, inside of the
//! pod's network namespace, and keeps the source's address and port. So both
//! ends are among the sockets of the namespace: the app's, and one that the
//! proxy has accepted, whose peer is the app's own end. When the app's peer is
//! the proxy's own end the app has asked for the proxy; when it is not, the
//! connection was redirected. What comes in through the proxy is a connection
//! of the proxy's to the app.
//!
//! Where an app's connection has no other end in the namespace it is direct.
//! There are exceptions, and each is said to be unknown: see [`Why`].

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

use usher_core::node::socket::{Protocol, Socket, State, plain};

use super::{Owner, Role, Scene, owner::Listeners};

/// Ends that are compared for one socket: an address is the peer of more only
/// where connections share one end, and then the first ones tell.
const MOST_CANDIDATES: usize = 64;

/// Which way a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// It is no connection, or not one of an app's.
    None,
    /// Straight to its peer, past every sidecar.
    Direct,
    /// It was redirected to this port.
    Through {
        /// The container that has accepted it; None for one outside of the pod.
        container: Option<usize>,
        /// The port that it came to.
        port: u16,
    },
    /// It came in through this container.
    From(Option<usize>),
    /// It is meant for this container.
    To {
        /// The container; None for a process outside of the pod.
        container: Option<usize>,
        /// The port.
        port: u16,
    },
    /// It is the sidecar's end of a connection of this container's.
    For(usize),
    /// It does not follow from what was seen.
    Unknown(Why),
}

/// Why the way of a connection is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nobody has answered yet.
    Unanswered,
    /// It is not known which containers are sidecars.
    Roles,
    /// Nobody holds it any more.
    Closed,
    /// A process that does not show what it holds may be part of it.
    Unseen,
    /// There was another end in this namespace, and it is closed.
    OtherEndClosed,
    /// It is being closed, and another end may have been here.
    OtherEndGone,
    /// Not all sockets were seen.
    Partial,
    /// The kernel has given some redirected connections another source port, so
    /// this may be one of them.
    Renumbered,
    /// A datagram socket does not tell where its datagrams are redirected to.
    Datagrams,
}

impl Why {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unanswered => "nobody has answered yet",
            Self::Roles => "which containers are sidecars is not known",
            Self::Closed => "no process holds it any more",
            Self::Unseen => "not every process of the pod shows what it holds",
            Self::OtherEndClosed => "its other end in this pod is closed",
            Self::OtherEndGone => "it is being closed, its other end may have been in this pod",
            Self::Partial => "not all sockets were seen",
            Self::Renumbered => {
                "redirected connections have other source ports, this may be one of them"
            }
            Self::Datagrams => "datagrams leave no other end to look at",
        }
    }
}

/// One end, the other end, and the socket's place; in order.
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

    /// The sockets with this first end, at most as many as are compared.
    fn at(&self, first: SocketAddr) -> impl Iterator<Item = (SocketAddr, usize)> {
        let start = self.0.partition_point(|entry| entry.0 < first);
        let entries = self.0[start..].iter().take(MOST_CANDIDATES);
        let mine = entries.take_while(move |entry| entry.0 == first);
        mine.map(|(_, second, place)| (*second, *place as usize))
    }

    /// The socket with both ends.
    fn exact(&self, first: SocketAddr, second: SocketAddr) -> Option<usize> {
        let wanted = (first, second);
        let start = self.0.partition_point(|entry| (entry.0, entry.1) < wanted);
        let entry = self.0.get(start)?;
        ((entry.0, entry.1) == wanted).then_some(entry.2 as usize)
    }
}

/// Everything that is looked up for one judgement.
pub(super) struct Book<'a> {
    scene: &'a Scene,
    owners: &'a [Owner],
    listeners: Listeners,
    by_local: Index,
    by_peer: Index,
    /// Addresses of the namespace that redirected connections with other
    /// source ports came from.
    renumbered: Vec<IpAddr>,
}

impl<'a> Book<'a> {
    pub(super) fn new(scene: &'a Scene, owners: &'a [Owner]) -> Self {
        let connections = || {
            let sockets = scene.sockets.iter().enumerate();
            sockets.filter(|(_, socket)| is_connection(socket))
        };
        let by_local = Index::new(connections().map(|(at, end)| (end.local, end.peer, at)));
        let by_peer = Index::new(connections().map(|(at, end)| (end.peer, end.local, at)));
        let mut book = Self {
            scene,
            owners,
            listeners: Listeners::new(&scene.sockets),
            by_local,
            by_peer,
            renumbered: Vec::new(),
        };
        book.renumbered = book.find_renumbered();
        book
    }

    pub(super) fn via(&self, place: usize) -> Via {
        let socket = &self.scene.sockets[place];
        if socket.waits() || !socket.has_peer() {
            return Via::None;
        }
        if socket.protocol == Protocol::Udp {
            return self.datagrams(place);
        }
        match (self.owners[place], self.scene.role(self.owners[place])) {
            (Owner::Nobody, _) => Via::Unknown(Why::Closed),
            (Owner::Unseen, _) => Via::Unknown(Why::Unseen),
            (_, Some(Role::App)) => self.of_app(place),
            (_, Some(Role::Sidecar)) => self.of_sidecar(place),
            (_, Some(Role::Unknown)) => Via::Unknown(Why::Roles),
            (_, Some(Role::Sandbox) | None) => Via::None,
        }
    }

    fn of_app(&self, place: usize) -> Via {
        let socket = &self.scene.sockets[place];
        let (local, peer) = (plain(socket.local), plain(socket.peer));
        if let Some(other) = self.by_peer.exact(local, peer) {
            return self.asked_for(place, other);
        }
        // Only what connects is redirected.
        if !self.was_accepted(socket)
            && let Some((end, other)) = self.redirected(local)
        {
            return match self.owners[other] {
                Owner::Nobody => Via::Unknown(Why::OtherEndClosed),
                Owner::Unseen => Via::Unknown(Why::Unseen),
                owner => Via::Through {
                    container: owner.container(),
                    port: end.port(),
                },
            };
        }
        self.without_other_end(socket)
    }

    /// The app and its peer are both in this namespace.
    fn asked_for(&self, place: usize, other: usize) -> Via {
        let socket = &self.scene.sockets[place];
        let owner = self.owners[other];
        let container = owner.container();
        match self.scene.role(owner) {
            _ if owner == Owner::Nobody => Via::Unknown(Why::OtherEndClosed),
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
            _ if self.scene.is_partial => Via::Unknown(Why::Partial),
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
        let socket = &self.scene.sockets[place];
        let (local, peer) = (plain(socket.local), plain(socket.peer));
        let exact = self.by_local.exact(peer, local);
        let other = exact.or_else(|| {
            let mut ends = self.by_local.at(peer);
            ends.find(|(far, _)| self.by_peer.exact(peer, *far).is_none())
                .map(|(_, other)| other)
        });
        let owner = other.map(|other| self.owners[other]);
        match owner.and_then(|owner| Some((owner.container()?, self.scene.role(owner)?))) {
            Some((container, Role::App)) => Via::For(container),
            _ => Via::None,
        }
    }

    fn datagrams(&self, place: usize) -> Via {
        let socket = &self.scene.sockets[place];
        if self.scene.role(self.owners[place]) != Some(Role::App) {
            return Via::None;
        }
        let (scene, protocol) = (self.scene, Protocol::Udp);
        let listener = self
            .listeners
            .container(scene, self.owners, protocol, socket.peer);
        let is_sidecar = |place: &usize| scene.containers[*place].role == Role::Sidecar;
        match listener.filter(is_sidecar) {
            Some(container) if socket.peer.ip().to_canonical().is_loopback() => Via::To {
                container: Some(container),
                port: socket.peer.port(),
            },
            _ => Via::Unknown(Why::Datagrams),
        }
    }

    /// A socket whose peer is this end, and whose own end nobody here has asked
    /// for: the connection was redirected to it.
    fn redirected(&self, local: SocketAddr) -> Option<(SocketAddr, usize)> {
        let mut ends = self.by_peer.at(local);
        ends.find(|(end, _)| self.by_local.exact(local, *end).is_none())
    }

    fn was_accepted(&self, socket: &Socket) -> bool {
        self.listeners
            .has(self.scene, socket.protocol, socket.local)
    }

    /// Where two connections of one source port are redirected to one port of
    /// the proxy, the kernel gives the second one another source port. Its two
    /// ends cannot be brought together then. Those that are explained by
    /// connections that share a source port are not counted.
    fn find_renumbered(&self) -> Vec<IpAddr> {
        let mut surplus: HashMap<IpAddr, i64> = HashMap::new();
        for (place, socket) in self.scene.sockets.iter().enumerate() {
            let carries = match self.owners[place] {
                Owner::Outside | Owner::Unseen => true,
                owner => self.scene.role(owner) == Some(Role::Sidecar),
            };
            let (local, peer) = (plain(socket.local), plain(socket.peer));
            let is_other_end = carries && is_connection(socket) && self.was_accepted(socket);
            if !is_other_end || self.by_local.exact(peer, local).is_some() {
                continue;
            }
            let asked_elsewhere = self
                .by_local
                .at(peer)
                .filter(|(far, _)| self.by_peer.exact(peer, *far).is_none());
            let sources = i64::try_from(asked_elsewhere.count()).unwrap_or(i64::MAX);
            *surplus.entry(peer.ip()).or_default() += sources.saturating_sub(1);
        }
        let missing = surplus.into_iter().filter(|(_, sources)| *sources < 0);
        missing.map(|(address, _)| address).collect()
    }
}

fn is_connection(socket: &Socket) -> bool {
    socket.protocol == Protocol::Tcp && !socket.waits() && socket.has_peer()
}
