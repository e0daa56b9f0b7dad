//! A socket as the kernel lists it, and the names of its states.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::base::id::Pid;

/// A process that holds sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: Pid,
    /// The name that the process sets, which may be any text.
    pub name: String,
    /// The index of its container.
    pub container: usize,
}

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

/// The state of a socket: the states of TCP in the kernel's numbers
/// ([`tcp_states.h`](https://github.com/torvalds/linux/blob/v6.18/include/net/tcp_states.h)). A datagram socket is
/// `Established` where it has a peer, otherwise `Unconnected`.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    strum::Display,
    strum::FromRepr,
    strum::IntoStaticStr,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "SCREAMING-KEBAB-CASE", const_into_str)]
#[expect(missing_docs, reason = "the names of TCP's own states")]
#[repr(u8)]
pub enum State {
    #[strum(to_string = "ESTAB")]
    Established = 1,
    SynSent = 2,
    #[strum(to_string = "SYN-RECV")]
    SynReceived = 3,
    #[strum(to_string = "FIN-WAIT-1")]
    FinWait1 = 4,
    #[strum(to_string = "FIN-WAIT-2")]
    FinWait2 = 5,
    TimeWait = 6,
    #[strum(to_string = "UNCONN")]
    Unconnected = 7,
    CloseWait = 8,
    LastAck = 9,
    Listen = 10,
    Closing = 11,
    #[strum(to_string = "UNKNOWN")]
    Other = 0,
}

impl State {
    /// All states that can be requested.
    pub const ALL: [Self; 11] = [
        Self::Established,
        Self::SynSent,
        Self::SynReceived,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Unconnected,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
    ];

    /// Converts the kernel's number. `TCP_NEW_SYN_RECV`, a connection request that has just arrived, is no state of
    /// its own for users.
    pub fn of_kernel(number: u8) -> Self {
        match number {
            12 => Self::SynReceived,
            number => Self::from_repr(number).unwrap_or(Self::Other),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no state; there are {}", State::ALL.map(<&str>::from).join(", "))]
pub struct UnknownState {
    text: String,
}

impl FromStr for State {
    type Err = UnknownState;

    /// Parses the names in `ss` and `netstat`, in any case.
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let plain = |text: &str| text.to_ascii_uppercase().replace(['-', '_'], "");
        let wanted = plain(text);
        let found = match wanted.as_str() {
            "ESTABLISHED" => Some(Self::Established),
            "LISTENING" => Some(Self::Listen),
            "SYNRECEIVED" => Some(Self::SynReceived),
            "UNCONNECTED" | "CLOSE" | "CLOSED" => Some(Self::Unconnected),
            word => Self::ALL
                .into_iter()
                .find(|state| plain(state.into_str()) == word),
        };
        found.ok_or_else(|| UnknownState {
            text: text.chars().take(32).collect(),
        })
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        if word == Self::Other.into_str() {
            return Ok(Self::Other);
        }
        word.parse().map_err(de::Error::custom)
    }
}

/// The timer after which the kernel acts on a socket, in the kernel's numbers; 0 is no timer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::FromRepr, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TimerKind {
    Retransmit = 1,
    /// The kernel probes whether the peer is alive, or closes the connection.
    Keepalive,
    TimeWait,
    /// The kernel probes whether the peer accepts data again.
    Persist,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    pub kind: TimerKind,
    pub left: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub protocol: Protocol,
    pub state: State,
    pub local: SocketAddr,
    /// The address of the peer; unspecified with port 0 where there is none.
    pub peer: SocketAddr,
    /// It is bound to an IPv6 address and accepts IPv4 as well.
    pub both_families: bool,
    /// The interface that it is bound to; 0 for none.
    pub interface: u32,
    /// Unread bytes, or connections that are not accepted yet.
    pub receive_queue: u32,
    /// Unacknowledged bytes, or the limit of connections that are not accepted yet.
    pub send_queue: u32,
    pub uid: u32,
    /// Inode in the kernel's socket file system; 0 where no descriptor is open.
    pub inode: u32,
    /// The kernel's cookie of the socket, which no other socket gets.
    pub cookie: u64,
    /// The cgroup in which it was created (version 2); 0 where the kernel does not report it.
    pub cgroup: u64,
    pub timer: Option<Timer>,
    /// How often the oldest unacknowledged data was retransmitted.
    pub retransmits: u8,
    /// Smoothed round trip time.
    pub rtt: Option<Duration>,
    /// Retransmitted packets since its creation.
    pub all_retransmits: Option<u32>,
    /// Received packets that were dropped because its queue was full.
    pub drops: Option<u32>,
    /// Bytes that the peer has sent, its FIN included; of a full TCP socket only.
    pub received: Option<u64>,
}

impl Socket {
    /// Whether it waits for peers: a listener, or a UDP socket without a peer.
    pub fn waits(&self) -> bool {
        self.state == State::Listen || (self.protocol == Protocol::Udp && !self.has_peer())
    }

    pub fn has_peer(&self) -> bool {
        self.peer.port() != 0 || !self.peer.ip().is_unspecified()
    }

    /// Whether a listener at its address would receive a packet to this address.
    pub fn covers(&self, address: SocketAddr) -> bool {
        let (own, other) = (self.local.ip(), address.ip());
        let fits = match own.to_canonical() {
            IpAddr::V4(ip) if ip.is_unspecified() => other.is_ipv4(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => other.is_ipv6() || self.both_families,
            ip => ip == other,
        };
        fits && self.local.port() == address.port()
    }
}

/// The address, with an IPv4-mapped IPv6 address converted to IPv4.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Formats an address for users: `*` for everything.
pub fn end(address: SocketAddr, both_families: bool) -> String {
    let port = match address.port() {
        0 => "*".to_owned(),
        port => port.to_string(),
    };
    match address.ip() {
        ip if ip.is_unspecified() && (both_families || address.port() == 0) => format!("*:{port}"),
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_numbers_and_words() {
        for state in State::ALL {
            assert_eq!(State::of_kernel(state as u8), state);
            assert_eq!(state.into_str().parse(), Ok(state));
            assert_eq!(state.into_str().to_lowercase().parse(), Ok(state));
        }
        assert_eq!(State::of_kernel(12), State::SynReceived);
        assert_eq!(State::of_kernel(200), State::Other);
        assert_eq!("Established".parse(), Ok(State::Established));
        assert_eq!("TIME_WAIT".parse(), Ok(State::TimeWait));
        assert_eq!("listening".parse(), Ok(State::Listen));
        assert!("".parse::<State>().is_err());
        assert!("UNKNOWN".parse::<State>().is_err());
    }

    /// In `-o json` they are the same words.
    #[test]
    fn timers_and_protocols_have_words() {
        for (number, word) in [
            (0, None),
            (1, Some("retransmit")),
            (2, Some("keepalive")),
            (3, Some("time-wait")),
            (4, Some("persist")),
            (5, None),
        ] {
            let kind = TimerKind::from_repr(number);
            assert_eq!(kind.map(<&str>::from), word, "{number}");
            assert_eq!(serde_json::json!(kind), serde_json::json!(word));
        }
        for (protocol, word) in [(Protocol::Tcp, "tcp"), (Protocol::Udp, "udp")] {
            assert_eq!(protocol.into_str(), word);
            assert_eq!(serde_json::json!(protocol), word);
        }
    }

    #[test]
    fn socket_addresses_are_formatted() {
        for (address, both, text) in [
            ("0.0.0.0:80", false, "0.0.0.0:80"),
            ("[::]:80", false, "[::]:80"),
            ("[::]:80", true, "*:80"),
            ("[::1]:80", true, "[::1]:80"),
            ("0.0.0.0:0", false, "*:*"),
            ("[::]:0", false, "*:*"),
            ("10.0.0.1:0", false, "10.0.0.1:*"),
            ("[::ffff:127.0.0.1]:80", true, "[::ffff:127.0.0.1]:80"),
        ] {
            assert_eq!(end(address.parse().unwrap(), both), text);
        }
    }
}
