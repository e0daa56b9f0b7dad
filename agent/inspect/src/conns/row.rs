//! One socket as it is shown.

use std::{borrow::Cow, net::SocketAddr};

use serde::{Deserialize, Serialize};
use usher_core::node::socket::{self, Protocol, Socket, State, TimerKind};

use super::{Owner, Scene, Via};

/// Processes that are named for one socket; the rest is counted.
const MOST_NAMED: usize = 16;

/// One socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What it speaks.
    pub protocol: Protocol,
    /// What it does.
    pub state: State,
    /// Its own end.
    pub local: SocketAddr,
    /// The other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<SocketAddr>,
    /// It is open at an IPv6 address and takes IPv4 as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub both_families: bool,
    /// What waits to be accepted; of listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Bytes that nobody has read.
    pub receive_queue: u32,
    /// Bytes that nobody has acknowledged.
    pub send_queue: u32,
    /// Name of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// How its owner is known.
    pub owner: OwnerKind,
    /// The processes that hold it, the first ones of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Holder>,
    /// How many hold it that are not named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_processes: usize,
    /// Which way it goes; of connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Way>,
    /// User who made it.
    pub uid: u32,
    /// Its number among the sockets of the node.
    pub inode: u32,
    /// What the kernel waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<RunningTimer>,
    /// How often the oldest data was sent again.
    pub retransmits: u8,
    /// How many packets were, in all its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_retransmits: Option<u32>,
    /// Time that a packet takes there and back, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// What came and was dropped, as its queue was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<u32>,
}

/// The queue of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Connections that nobody has accepted.
    pub length: u32,
    /// How many may be.
    pub max: u32,
}

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its number on the node.
    pub pid: i32,
    /// The name that it gives itself.
    pub name: String,
}

/// A timer that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningTimer {
    /// What for.
    pub kind: TimerKind,
    /// How long yet, in milliseconds.
    pub left_ms: u64,
}

/// How the owner of a socket is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnerKind {
    /// A process holds it.
    Process,
    /// It was made in the container; no process was seen to hold it.
    Container,
    /// It is open outside of the pod's containers.
    Outside,
    /// It is open, maybe in a process that does not show what it holds.
    Unseen,
    /// It is closed.
    Nobody,
}

/// Which way a connection goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// In a word.
    pub how: How,
    /// The sidecar, or the app; none for one outside of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The sidecar's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'static, str>>,
}

/// Which way a connection goes, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Past every sidecar.
    Direct,
    /// Redirected to a sidecar.
    Through,
    /// Came in through a sidecar.
    From,
    /// Meant for a sidecar.
    To,
    /// The sidecar's end of an app's connection.
    For,
    /// Not known.
    Unknown,
}

impl How {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Through => "through",
            Self::From => "from",
            Self::To => "to",
            Self::For => "for",
            Self::Unknown => "unknown",
        }
    }
}

impl Row {
    pub(super) fn new(scene: &Scene, socket: &Socket, owner: Owner, via: Via) -> Self {
        let name = |place: usize| scene.containers.get(place).map(|it| it.name.clone());
        let mut holders = scene.holders(socket.inode).map(|process| Holder {
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
            owner: match owner {
                Owner::Process(_) => OwnerKind::Process,
                Owner::Container(_) => OwnerKind::Container,
                Owner::Outside => OwnerKind::Outside,
                Owner::Unseen => OwnerKind::Unseen,
                Owner::Nobody => OwnerKind::Nobody,
            },
            processes: holders.by_ref().take(MOST_NAMED).collect(),
            more_processes: holders.count(),
            via: Way::of(via, name),
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

    /// Whether it waits for others: a listener, or datagrams from anywhere.
    pub fn waits(&self) -> bool {
        let is_open = self.state == State::Listen || self.protocol == Protocol::Udp;
        self.peer.is_none() && is_open
    }

    /// Its own end as people write it.
    pub fn local_text(&self) -> String {
        socket::end(self.local, self.both_families)
    }

    /// The other end as people write it.
    pub fn peer_text(&self) -> String {
        self.peer
            .map_or_else(|| "*:*".to_owned(), |peer| socket::end(peer, false))
    }

    /// Which way it goes, in words; with the reason where that is not known.
    pub fn via_text(&self, with_reason: bool) -> String {
        let Some(way) = &self.via else {
            return "-".to_owned();
        };
        let whose = way.container.as_deref().unwrap_or("outside");
        match (way.how, way.port, way.why.as_deref()) {
            (How::Direct, ..) => "direct".to_owned(),
            (How::Through, Some(port), _) => format!("through {whose}:{port}"),
            (How::Unknown, _, Some(why)) if with_reason => format!("? ({why})"),
            (How::Unknown, ..) => "?".to_owned(),
            (how, ..) => format!("{} {whose}", how.as_str()),
        }
    }

    /// The processes in a few words.
    pub fn process_text(&self) -> String {
        let Some(first) = self.processes.first() else {
            let nobody = match self.owner {
                OwnerKind::Outside => "(outside of the pod)",
                OwnerKind::Unseen => "?",
                _ => "-",
            };
            return nobody.to_owned();
        };
        let more = self.processes.len() - 1 + self.more_processes;
        let more = match more {
            0 => String::new(),
            more => format!(" +{more}"),
        };
        format!("{}/{}{more}", first.pid, first.name)
    }

    /// Its place among the others.
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
    fn of(via: Via, name: impl Fn(usize) -> Option<String>) -> Option<Self> {
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
                why: Some(why.as_str().into()),
                ..way(How::Unknown, None, None)
            }),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
