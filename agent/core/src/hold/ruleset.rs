//! The rules that hold a pod's connections, as data: one nftables table for each network namespace.
//!
//! [`Ruleset::of`] plans the rules, its `Display` formats them as `nft list table inet usher` does, and [`diff`]
//! compares them with existing rules. This module sends nothing.
//!
//! The set [`HELD`] is both the hold and its deadline: an element is a port at which new connections wait, and the
//! kernel removes it when its timeout expires. The chain [`HOLD`] follows the mesh's own redirection (nat output,
//! priority -100), so that a captured connection already has the mesh's port, at a loopback address; the same port of
//! another host is not held. The chain [`COPY`] comes first. It copies the packets that open connections, while the
//! set [`COPYING`] lists their protocol, and the copies are sent again at the release. It precedes the redirection,
//! because a copy needs the destination that the app connects to, so it also copies connections that are not held.

mod difference;
mod plan;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::difference::{Diff, Piece, diff, drift};

/// Name of the table, of family inet.
pub const TABLE: &str = "usher";
/// Set of the ports at which connections wait.
pub const HELD: &str = "held";
/// Set of the protocols (TCP alone) whose packets are copied.
pub const COPYING: &str = "copying";
/// Chain that copies packets.
pub const COPY: &str = "copy";
/// Chain that holds connections.
pub const HOLD: &str = "hold";
/// The nflog group of the copies and the nfqueue number of waiting queries, in the pod's namespace.
pub const GROUP: u16 = 9643;

/// The priority (`SO_PRIORITY`) of the sockets that usher opens in a pod: their connections are neither held, copied
/// nor counted. Unlike a socket mark it matches no routing rule and no rule of a mesh, and a loopback device has no
/// queues that use it. Any value above 6 needs `CAP_NET_ADMIN` or `CAP_NET_RAW`.
pub const SOCKET_PRIORITY: u32 = 0x7573_6872;

/// Before everything but connection tracking's own setup.
const COPY_PRIORITY: i32 = -300;
/// After the redirection of the mesh (-100).
const HOLD_PRIORITY: i32 = -90;

/// The input for a pod's table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wanted {
    pub ports: Vec<HeldPort>,
    /// How DNS queries to these ports wait; None where they do not.
    pub dns: Option<Queue>,
    /// Users whose connections pass: the mesh proxy's own.
    pub exempt_uids: Vec<u32>,
    pub exempt_gids: Vec<u32>,
    pub count_only: bool,
}

/// A port at which connections wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldPort {
    /// The port, of a loopback address.
    pub port: u16,
    /// The longest hold. A port with a timeout of zero is left out: in the kernel, zero means forever.
    pub timeout: Duration,
}

/// How packets are queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Queue {
    /// By nftables itself (`CONFIG_NFT_QUEUE`).
    Native,
    /// By the target of iptables in an nftables rule (`CONFIG_NFT_COMPAT`).
    Compat,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruleset {
    /// Its sets, by name.
    pub sets: Vec<Set>,
    /// Its chains, by priority.
    pub chains: Vec<Chain>,
}

/// A set whose elements may have timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    /// The type of its elements.
    pub key: Key,
    /// The elements, in order.
    pub elements: Vec<Element>,
}

/// The type of a set's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// Ports.
    Service,
    /// Protocols of the transport layer.
    Protocol,
    /// A type that usher never uses, by its number in nft.
    Other(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element {
    /// The port or the protocol's number.
    pub value: u16,
    /// How long it stays after it was added; None for forever.
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub name: String,
    pub entry: Entry,
    pub rules: Vec<Rule>,
}

/// Where packets enter a chain, and what happens to packets that no rule decides about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Filter chain in the output hook, where the lower `priority` comes first; policy accept.
    Output {
        /// Its place among all chains of the hook.
        priority: i32,
    },
    /// Any other hook; the text distinguishes it.
    Other(String),
}

/// A rule: its conditions and its statements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// All of these must match.
    pub matches: Vec<Match>,
    /// These are executed in order.
    pub then: Vec<Then>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// Its socket has this priority.
    Priority(u32),
    /// It is from a socket of this user.
    User(u32),
    /// It is from a socket of this group.
    Group(u32),
    /// Its protocol is in the set of this name.
    ProtocolIn(String),
    /// It is sent to a loopback address: 127.0.0.0/8, or ::1.
    Loopback(Family),
    /// It has this protocol, and its port is in the set of this name.
    PortIn(Transport, String),
    /// It opens a TCP connection: of FIN, SYN, RST and ACK only SYN is set.
    Opens,
    /// A condition that usher never uses.
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    V4,
    V6,
}

/// A protocol of the transport layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Its number in the IP header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// A statement of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    Count,
    /// Sends a copy to this nflog group immediately.
    Copy(u16),
    /// The packet continues with the next chain.
    Accept,
    Drop,
    /// The packet waits in this nfqueue, or passes where no process serves the queue.
    Queue(u16, Queue),
    /// A statement that usher never uses.
    Other(String),
}
