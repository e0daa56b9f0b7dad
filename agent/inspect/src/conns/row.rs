//! One socket of the report.

use std::{borrow::Cow, net::SocketAddr};

use serde::{Deserialize, Serialize};
use usher_core::node::socket::{self, Protocol, Socket, State, TimerKind};

use super::{Input, Owner, OwnerKind, Via};

/// Limit of processes listed for one socket; further ones are counted.
const MAX_PROCESSES: usize = 16;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub protocol: Protocol,
    pub state: State,
    pub local: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<SocketAddr>,
    /// Whether the socket is bound to an IPv6 address and accepts IPv4 too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_families: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Bytes that the process has not read.
    pub receive_queue: u32,
    /// Bytes that the peer has not acknowledged.
    pub send_queue: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    pub owner: OwnerKind,
    /// The first processes that hold the socket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Holder>,
    /// Number of further processes that hold the socket.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_processes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Way>,
    /// UID of the user that created the socket.
    pub uid: u32,
    pub inode: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<RunningTimer>,
    /// Retransmissions of the oldest unacknowledged data.
    pub retransmits: u8,
    /// Retransmitted packets since the connection was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_retransmits: Option<u32>,
    /// Smoothed round-trip time in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// Packets dropped because the receive queue was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<u32>,
}

/// The accept queue of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Connections that are not accepted yet.
    pub length: u32,
    pub max: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: i32,
    /// Process name (`comm`).
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningTimer {
    pub kind: TimerKind,
    pub left_ms: u64,
}

/// The path of a connection through the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    pub how: How,
    /// The sidecar or the app at the other end; None outside of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Why the path is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'static, str>>,
}

/// The kind of path of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "lowercase")]
pub enum How {
    Direct,
    Through,
    From,
    To,
    /// The sidecar's end of an app's connection.
    For,
    Unknown,
}

impl How {
    /// The name in JSON and in tables.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Row {
    pub(super) fn new(input: &Input, socket: &Socket, owner: Owner, via: Via) -> Self {
        let name = |place: usize| input.containers.get(place).map(|it| it.name.clone());
        let mut holders = input.holders(socket.inode).map(|process| Holder {
            pid: process.pid.0,
            name: process.name.clone(),
        });
        let is_listener = socket.state == State::Listen;
        let bytes = |count: u32| if is_listener { 0 } else { count };
        Self {
            protocol: socket.protocol,
            state: socket.state,
            local: socket.local,
            peer: socket.has_peer().then_some(socket.peer),
            both_families: socket.both_families && !socket.has_peer(),
            backlog: is_listener.then_some(Backlog {
                length: socket.receive_queue,
                max: socket.send_queue,
            }),
            receive_queue: bytes(socket.receive_queue),
            send_queue: bytes(socket.send_queue),
            container: owner.container().and_then(name),
            owner: owner.into(),
            processes: holders.by_ref().take(MAX_PROCESSES).collect(),
            more_processes: holders.count(),
            via: Way::from_via(via, name),
            uid: socket.uid,
            inode: socket.inode,
            timer: socket.timer.map(|timer| RunningTimer {
                kind: timer.kind,
                left_ms: u64::try_from(timer.left.as_millis()).unwrap_or(u64::MAX),
            }),
            retransmits: socket.retransmits,
            all_retransmits: socket.all_retransmits,
            rtt_us: socket
                .rtt
                .map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX)),
            drops: socket.drops,
        }
    }

    /// Whether the socket is a listener, or receives datagrams from any peer.
    pub fn waits(&self) -> bool {
        let is_open = self.state == State::Listen || self.protocol == Protocol::Udp;
        self.peer.is_none() && is_open
    }

    pub fn local_text(&self) -> String {
        socket::end(self.local, self.both_families)
    }

    pub fn peer_text(&self) -> String {
        self.peer
            .map_or_else(|| "*:*".to_owned(), |peer| socket::end(peer, false))
    }

    /// The path as text, optionally with the reason if it is not known.
    pub fn via_text(&self, with_reason: bool) -> String {
        self.via
            .as_ref()
            .map_or_else(|| "-".to_owned(), |way| way.text(with_reason))
    }

    pub fn process_text(&self) -> String {
        let Some(first) = self.processes.first() else {
            let placeholder = match self.owner {
                OwnerKind::Outside => "(outside of the pod)",
                OwnerKind::Unseen => "?",
                _ => "-",
            };
            return placeholder.to_owned();
        };
        let more = self.processes.len() - 1 + self.more_processes;
        let more = match more {
            0 => String::new(),
            more => format!(" +{more}"),
        };
        format!("{}/{}{more}", first.pid, first.name)
    }

    pub(super) fn rank(&self) -> impl Ord + '_ {
        let waits = self.peer.is_none();
        let port = if waits { self.local.port() } else { 0 };
        let container = self.container.as_deref().filter(|_| !waits);
        (
            !waits,
            port,
            container,
            self.protocol,
            self.peer,
            self.local,
            self.inode,
            (self.state, &self.container),
        )
    }
}

impl Way {
    /// The path as text, optionally with the reason if it is not known.
    pub fn text(&self, with_reason: bool) -> String {
        let container = self.container.as_deref().unwrap_or("outside");
        match (self.how, self.port, self.why.as_deref()) {
            (How::Direct, ..) => "direct".to_owned(),
            (How::Through, Some(port), _) => format!("through {container}:{port}"),
            (How::Unknown, _, Some(why)) if with_reason => format!("? ({why})"),
            (How::Unknown, ..) => "?".to_owned(),
            (how, ..) => format!("{} {container}", how.as_str()),
        }
    }

    fn from_via(via: Via, name: impl Fn(usize) -> Option<String>) -> Option<Self> {
        let way = |how, container: Option<usize>, port| Self {
            how,
            container: container.and_then(&name),
            port,
            why: None,
        };
        match via {
            Via::None => None,
            Via::Direct => Some(way(How::Direct, None, None)),
            Via::Through { container, port } => Some(way(How::Through, container, Some(port))),
            Via::From(container) => Some(way(How::From, container, None)),
            Via::To { container, port } => Some(way(How::To, container, Some(port))),
            Via::For(container) => Some(way(How::For, Some(container), None)),
            Via::Unknown(why) => Some(Self {
                why: Some(<&str>::from(why).into()),
                ..way(How::Unknown, None, None)
            }),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
