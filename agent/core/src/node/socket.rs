//! A socket as the kernel lists it, and the words for what it does.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::base::id::Pid;

/// A process that holds sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: Pid,
    /// The name that it gives itself, which may be any text.
    pub name: String,
    /// The place of its container.
    pub container: usize,
}

/// What a socket speaks.
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
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What a socket does: the states of TCP in the kernel's numbers
/// ([`tcp_states.h`](https://github.com/torvalds/linux/blob/v6.18/include/net/tcp_states.h)).
/// A datagram socket is `Established` when it has a peer, else `Unconnected`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "SCREAMING-KEBAB-CASE")]
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
    /// A state that this program does not know.
    #[strum(to_string = "UNKNOWN")]
    Other = 0,
}

impl State {
    /// All that can be asked for.
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

    /// From the kernel's number. What has only just been asked for
    /// (`TCP_NEW_SYN_RECV`) is no state of its own to people.
    pub fn of_kernel(number: u8) -> Self {
        if number == 12 {
            return Self::SynReceived;
        }
        let found = Self::ALL.into_iter().find(|state| *state as u8 == number);
        found.unwrap_or(Self::Other)
    }

    /// The word that `ss` has for it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no state; there are {}", State::ALL.map(State::as_str).join(", "))]
pub struct UnknownState {
    text: String,
}

impl FromStr for State {
    type Err = UnknownState;

    /// The words of `ss` and those of `netstat`, in any case.
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
                .find(|state| plain(state.as_str()) == word),
        };
        found.ok_or_else(|| UnknownState {
            text: text.chars().take(32).collect(),
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        if word == Self::Other.as_str() {
            return Ok(Self::Other);
        }
        word.parse().map_err(de::Error::custom)
    }
}

/// What the kernel waits for before it does something with a socket by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum TimerKind {
    Retransmit,
    /// It asks whether the other side is alive, or ends the connection.
    Keepalive,
    TimeWait,
    /// It asks whether the other side takes data again.
    Persist,
}

impl TimerKind {
    /// From the kernel's number; None for no timer.
    pub fn of_kernel(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Retransmit),
            2 => Some(Self::Keepalive),
            3 => Some(Self::TimeWait),
            4 => Some(Self::Persist),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A timer that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    pub kind: TimerKind,
    pub left: Duration,
}

/// One socket of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub protocol: Protocol,
    pub state: State,
    pub local: SocketAddr,
    /// The other end; unspecified with port 0 where there is none.
    pub peer: SocketAddr,
    /// It is open at an IPv6 address and takes IPv4 as well.
    pub both_families: bool,
    /// The interface that it is bound to; 0 for none.
    pub interface: u32,
    /// Unread bytes, or connections that are not accepted yet.
    pub receive_queue: u32,
    /// Unacknowledged bytes, or the most connections that may wait to be accepted.
    pub send_queue: u32,
    pub uid: u32,
    /// Number in the kernel's file system of sockets; 0 where no descriptor is open.
    pub inode: u32,
    /// The kernel's number for it, which no other socket gets.
    pub cookie: u64,
    /// The cgroup that it was made in (version 2); 0 where the kernel does not report it.
    pub cgroup: u64,
    /// What the kernel waits for.
    pub timer: Option<Timer>,
    /// How often the oldest data that is not acknowledged was sent again.
    pub retransmits: u8,
    /// Time that a packet takes there and back, smoothed.
    pub rtt: Option<Duration>,
    /// Packets that were sent again, in all its life.
    pub all_retransmits: Option<u32>,
    /// What came and was dropped, as its queue was full.
    pub drops: Option<u32>,
    /// Bytes that the peer has sent, its FIN included; of a full TCP socket only.
    pub received: Option<u64>,
}

impl Socket {
    /// Whether it waits for others: a listener, or datagrams from anywhere.
    pub fn waits(&self) -> bool {
        self.state == State::Listen || (self.protocol == Protocol::Udp && !self.has_peer())
    }

    /// Whether it has another end.
    pub fn has_peer(&self) -> bool {
        self.peer.port() != 0 || !self.peer.ip().is_unspecified()
    }

    /// Whether a packet to this address would be for it, as for a listener.
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

/// An address without the clothes that IPv6 sockets put on those of IPv4.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An end as people write it: `*` for everything.
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
            assert_eq!(state.as_str().parse(), Ok(state));
            assert_eq!(state.as_str().to_lowercase().parse(), Ok(state));
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
            let kind = TimerKind::of_kernel(number);
            assert_eq!(kind.map(TimerKind::as_str), word, "{number}");
            assert_eq!(serde_json::json!(kind), serde_json::json!(word));
        }
        for (protocol, word) in [(Protocol::Tcp, "tcp"), (Protocol::Udp, "udp")] {
            assert_eq!(protocol.as_str(), word);
            assert_eq!(serde_json::json!(protocol), word);
        }
    }

    #[test]
    fn ends_as_people_write_them() {
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
