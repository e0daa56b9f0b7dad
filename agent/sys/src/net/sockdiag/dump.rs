//! All TCP and UDP sockets of a network namespace
//! ([`inet_diag.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/inet_diag.h)).
//!
//! The kernel sends the list in pages of 32 KiB, each after the previous one has been read, so that none is lost. The
//! list is not a snapshot: a socket that is opened or closed during the dump may be missing, and one that changes its
//! state may be listed twice.
//!
//! Needs no privilege in the namespace. A kernel without `udp_diag` lists no UDP sockets, which [`Dumped::absent`]
//! reports. Since Linux 5.8 the list includes the cgroup of a socket (`CONFIG_SOCK_CGROUP_DATA`).

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use nix::errno::Errno;
use usher_core::node::socket::{Protocol, Socket, State, Timer, TimerKind};

use super::{BY_FAMILY, Error, Query, Sockets, is};
use crate::net::{
    netlink::{attribute::attributes, message},
    u32_at,
};

/// Length of `struct inet_diag_msg`, which attributes follow.
const FIXED: usize = 72;

/// Attribute: `struct tcp_info`.
const INFO: u16 = 2;
/// Attribute: nine numbers about the socket's memory.
const MEMORY: u16 = 7;
/// Attribute: an IPv6 socket that does not accept IPv4.
const V6_ONLY: u16 = 11;
/// Attribute: inode number of the cgroup.
const CGROUP: u16 = 21;

/// Offsets in `struct tcp_info`.
const RTT: usize = 68;
const ALL_RETRANSMITS: usize = 100;
/// Since Linux 4.1.
const BYTES_RECEIVED: usize = 128;
/// Offset in the numbers about memory.
const DROPS: usize = 32;

/// The states of a full socket with a connection.
const CONNECTED: [State; 6] = [
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::LastAck,
    State::Closing,
];

#[derive(Debug, Clone)]
pub struct Wanted {
    pub protocols: Vec<Protocol>,
    /// Whether to include round trip times, retransmissions and drops. The reply is then four times as long.
    pub detail: bool,
}

/// Completeness of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Sockets changed during the dump: some may be missing.
    pub torn: bool,
    /// Protocols that the kernel cannot list.
    pub absent: Vec<Protocol>,
    /// Entries that could not be decoded.
    pub unreadable: usize,
}

impl Sockets {
    /// Passes every socket to `take`.
    pub fn dump(&mut self, wanted: &Wanted, take: impl FnMut(Socket)) -> Result<Dumped, Error> {
        self.dump_states(wanted, u32::MAX, take)
    }

    /// Passes the listeners for TCP to `take`.
    pub fn listeners(&mut self, take: impl FnMut(Socket)) -> Result<Dumped, Error> {
        let wanted = Wanted {
            protocols: vec![Protocol::Tcp],
            detail: false,
        };
        self.dump_states(&wanted, bits(&[State::Listen]), take)
    }

    /// Passes the TCP sockets with a connection to `take`, in detail. Excludes handshakes and connections in
    /// `TIME-WAIT`, of which a busy server has tens of thousands.
    pub fn connections(&mut self, take: impl FnMut(Socket)) -> Result<Dumped, Error> {
        let wanted = Wanted {
            protocols: vec![Protocol::Tcp],
            detail: true,
        };
        self.dump_states(&wanted, bits(&CONNECTED), take)
    }

    fn dump_states(
        &mut self,
        wanted: &Wanted,
        states: u32,
        mut take: impl FnMut(Socket),
    ) -> Result<Dumped, Error> {
        let bit = |attribute: u16| 1_u8 << (attribute - 1);
        let extensions = match wanted.detail {
            true => bit(INFO) | bit(MEMORY),
            false => 0,
        };
        let mut dumped = Dumped::default();
        for protocol in &wanted.protocols {
            for unspecified in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
                let query = Query {
                    extensions,
                    ..Query::for_all(unspecified, *protocol, states)
                };
                let listed = self.socket.dump(BY_FAMILY, &query.encode(), |message| {
                    match (message.kind, decode(message.body, *protocol)) {
                        (BY_FAMILY, Some(socket)) => take(socket),
                        _ => dumped.unreadable += 1,
                    }
                });
                match listed {
                    Ok(flags) => dumped.torn |= flags & message::INTERRUPTED != 0,
                    Err(error) if is(&error, Errno::ENOENT) => {
                        dumped.absent.push(*protocol);
                        break;
                    }
                    Err(source) => {
                        let protocol = *protocol;
                        return Err(Error::Dump { protocol, source });
                    }
                }
            }
        }
        Ok(dumped)
    }
}

/// Decodes a `struct inet_diag_msg` and its attributes; None for other bytes.
pub fn decode(body: &[u8], protocol: Protocol) -> Option<Socket> {
    let (fixed, rest) = body.split_first_chunk::<FIXED>()?;
    let number = |at: usize| {
        let bytes = [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        u32::from_ne_bytes(bytes)
    };
    let end = |port: usize, address: usize| {
        let port = u16::from_be_bytes([fixed[port], fixed[port + 1]]);
        address_of(fixed[0], &fixed[address..address + 16]).map(|ip| SocketAddr::new(ip, port))
    };
    let timer = TimerKind::from_repr(fixed[2]).map(|kind| Timer {
        kind,
        left: Duration::from_millis(number(52).into()),
    });
    let mut socket = Socket {
        protocol,
        state: State::of_kernel(fixed[1]),
        local: end(4, 8)?,
        peer: end(6, 24)?,
        both_families: i32::from(fixed[0]) == libc::AF_INET6,
        interface: number(40),
        cookie: u64::from(number(44)) | u64::from(number(48)) << 32,
        receive_queue: number(56),
        send_queue: number(60),
        uid: number(64),
        inode: number(68),
        cgroup: 0,
        timer,
        retransmits: fixed[3],
        rtt: None,
        all_retransmits: None,
        drops: None,
        received: None,
    };
    for attribute in attributes(rest) {
        let number = |at| u32_at(attribute.value, at);
        match attribute.kind {
            // Zero means that it was not measured.
            INFO => {
                let micros = number(RTT).filter(|micros| *micros > 0);
                socket.rtt = micros.map(|micros| Duration::from_micros(micros.into()));
                socket.all_retransmits = number(ALL_RETRANSMITS);
                let bytes = attribute.value.get(BYTES_RECEIVED..BYTES_RECEIVED + 8);
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                socket.received = bytes.map(u64::from_ne_bytes);
            }
            MEMORY => socket.drops = number(DROPS),
            V6_ONLY => socket.both_families &= attribute.value.first() == Some(&0),
            CGROUP => {
                let bytes = attribute.value.try_into().ok();
                socket.cgroup = bytes.map_or(0, u64::from_ne_bytes);
            }
            _ => {}
        }
    }
    Some(socket)
}

fn bits(states: &[State]) -> u32 {
    let bits = states.iter().map(|state| 1_u32 << *state as u8);
    bits.fold(0, |all, bit| all | bit)
}

fn address_of(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => {
            let (bytes, _) = bytes.split_first_chunk::<4>()?;
            Some(Ipv4Addr::from(*bytes).into())
        }
        libc::AF_INET6 => {
            let (bytes, _) = bytes.split_first_chunk::<16>()?;
            Some(Ipv6Addr::from(*bytes).into())
        }
        _ => None,
    }
}
