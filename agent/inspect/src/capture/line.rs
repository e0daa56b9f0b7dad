//! A packet as a line: direction, protocol, addresses, length.
//!
//! A line has only numbers from the headers and no payload, so it needs no escaping.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use usher_core::node::packet::{Direction, Link, Packet};

use super::{ARP, ICMP, ICMPV6, IPV4, IPV6, TCP, UDP};

/// TCP flags with the letters of tcpdump.
const TCP_FLAGS: [(u8, char); 6] = [
    (0x02, 'S'),
    (0x01, 'F'),
    (0x04, 'R'),
    (0x08, 'P'),
    (0x20, 'U'),
    (0x10, '.'),
];

/// The parsed headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub direction: Option<Direction>,
    pub protocol: Protocol,
    /// Source and destination of an IP packet.
    pub ends: Option<(End, End)>,
    pub length: u32,
}

/// Source or destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// An address without a port.
    Host(IpAddr),
    /// An address with a port.
    Port(SocketAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp {
        flags: u8,
        payload: usize,
    },
    Udp {
        payload: usize,
    },
    /// ICMP or ICMPv6.
    Icmp {
        kind: u8,
        code: u8,
    },
    Arp,
    /// A later fragment, or a packet with incomplete headers.
    Part,
    /// Another protocol after the IP header.
    Ip(u8),
    /// Another protocol after the link header.
    Other(u16),
}

impl Summary {
    /// Parses the captured part of the headers.
    pub fn of(packet: &Packet<'_>) -> Self {
        let header = Link::of(packet.hardware).header();
        let bytes = packet.bytes.get(header..).unwrap_or(&[]);
        let ip = match packet.protocol {
            IPV4 => ipv4(bytes),
            IPV6 => ipv6(bytes),
            _ => None,
        };
        let (protocol, ends) = match (packet.protocol, ip) {
            (_, Some(ip)) => ip.read(),
            (IPV4 | IPV6, None) => (Protocol::Part, None),
            (ARP, None) => (Protocol::Arp, None),
            (other, None) => (Protocol::Other(other), None),
        };
        Self {
            direction: packet.direction(),
            protocol,
            ends,
            length: packet.length,
        }
    }
}

/// An IP header with its payload.
struct Ip<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    is_later_fragment: bool,
    /// Length of the payload according to the header.
    length: usize,
    rest: &'a [u8],
}

fn ipv4(bytes: &[u8]) -> Option<Ip<'_>> {
    let header: &[u8; 20] = bytes.first_chunk()?;
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let address =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    Some(Ip {
        source: address(12).into(),
        destination: address(16).into(),
        protocol: header[9],
        is_later_fragment: u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0,
        length: total.saturating_sub(header_length),
        rest: bytes.get(header_length.max(20)..).unwrap_or(&[]),
    })
}

fn ipv6(bytes: &[u8]) -> Option<Ip<'_>> {
    let header: &[u8; 40] = bytes.first_chunk()?;
    let address = |at: usize| {
        let octets: [u8; 16] = std::array::from_fn(|offset| header[at + offset]);
        Ipv6Addr::from(octets)
    };
    Some(Ip {
        source: address(8).into(),
        destination: address(24).into(),
        protocol: header[6],
        is_later_fragment: false,
        length: usize::from(u16::from_be_bytes([header[4], header[5]])),
        rest: &bytes[40..],
    })
}

impl Ip<'_> {
    fn read(&self) -> (Protocol, Option<(End, End)>) {
        let hosts = Some((End::Host(self.source), End::Host(self.destination)));
        if self.is_later_fragment {
            return (Protocol::Part, hosts);
        }
        let protocol = match (self.protocol, self.rest) {
            (TCP, [_, _, _, _, _, _, _, _, _, _, _, _, offset, flags, ..]) => Protocol::Tcp {
                flags: *flags,
                payload: self.length.saturating_sub(usize::from(offset >> 4) * 4),
            },
            (UDP, [_, _, _, _, _, _, _, _, ..]) => Protocol::Udp {
                payload: self.length.saturating_sub(8),
            },
            (ICMP | ICMPV6, [kind, code, ..]) => Protocol::Icmp {
                kind: *kind,
                code: *code,
            },
            (TCP | UDP | ICMP | ICMPV6, _) => Protocol::Part,
            (other, _) => Protocol::Ip(other),
        };
        let ends = match (self.protocol, self.rest) {
            (TCP | UDP, [a, b, c, d, ..]) => {
                let port =
                    |address, bytes| End::Port(SocketAddr::new(address, u16::from_be_bytes(bytes)));
                Some((
                    port(self.source, [*a, *b]),
                    port(self.destination, [*c, *d]),
                ))
            }
            _ => hosts,
        };
        (protocol, ends)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(address) => address.fmt(f),
            Self::Port(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.direction {
            None => "-",
            Some(Direction::In) => "in",
            Some(Direction::Out) => "out",
        };
        write!(f, "{way:<3} ")?;
        match self.protocol {
            Protocol::Tcp { .. } => f.write_str("tcp  ")?,
            Protocol::Udp { .. } => f.write_str("udp  ")?,
            Protocol::Icmp { .. } => f.write_str("icmp ")?,
            Protocol::Arp => f.write_str("arp  ")?,
            Protocol::Part => f.write_str("part ")?,
            Protocol::Ip(_) => f.write_str("ip   ")?,
            Protocol::Other(_) => f.write_str("link ")?,
        }
        if let Some((source, destination)) = self.ends {
            write!(f, "{source} > {destination} ")?;
        }
        match self.protocol {
            Protocol::Tcp { flags, payload } => {
                let flags: String = TCP_FLAGS
                    .into_iter()
                    .filter_map(|(bit, letter)| (flags & bit != 0).then_some(letter))
                    .collect();
                write!(f, "[{flags}] payload {payload} ")?;
            }
            Protocol::Udp { payload } => write!(f, "payload {payload} ")?,
            Protocol::Icmp { kind, code } => write!(f, "type {kind} code {code} ")?,
            Protocol::Ip(number) => write!(f, "protocol {number} ")?,
            Protocol::Other(number) => write!(f, "protocol {number:#06x} ")?,
            Protocol::Arp | Protocol::Part => {}
        }
        write!(f, "length {}", self.length)
    }
}

#[cfg(test)]
mod tests;
