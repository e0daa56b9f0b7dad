//! Copies of SYN packets: they identify held connections, and are sent in their place when the hold ends.
//!
//! The copies come from nflog at the output hook, before any rewrite, so the addresses are the app's own and not
//! those of the mesh. Two fields of a copy cannot be sent unchanged: the TCP checksum, which the kernel leaves to the
//! device (`CHECKSUM_PARTIAL`), and the TCP timestamp ([RFC 7323](https://www.rfc-editor.org/rfc/rfc7323)), with
//! which the sender would measure the hold as round trip time.
//!
//! The bytes come from the pod and may be anything: a packet that is not a plain SYN is rejected, and nothing here
//! panics. A rejected packet only makes its connection wait for the next retransmission.
//!
//! Data behind the TCP header (TCP Fast Open) is left out: a server that acknowledges the SYN alone makes the client send
//! the data again ([RFC 7413](https://www.rfc-editor.org/rfc/rfc7413#section-4.2.1)). So a copy is at most 120 bytes long,
//! whatever the pod sends.

mod copies;
mod count;
mod store;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

pub use self::{
    copies::{Copies, Held, MOST_COPIES},
    count::ConnectionCount,
    store::{BUDGET, CopyStore},
};

const TCP: u8 = 6;
/// Length of a TCP header without options.
const TCP_HEADER: usize = 20;
const CHECKSUM_IN_TCP: usize = 16;
const CHECKSUM_IN_IPV4: usize = 10;
const LENGTH_IN_IPV4: usize = 2;
/// The length of what follows the header.
const LENGTH_IN_IPV6: usize = 4;

/// The two ends of a connection, as the app's socket has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.source, self.destination)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum NotASyn {
    #[error("packet of {length} bytes is cut off")]
    Truncated {
        /// The number of its bytes.
        length: usize,
    },
    #[error("packet has a malformed or fragmented IP or TCP header")]
    Header,
    #[error("packet is not TCP right after an IP header")]
    Protocol,
    #[error("packet does not open a TCP connection")]
    Flags,
}

impl NotASyn {
    /// The label in metrics.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// The packet that opens a connection, IP header first, without data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syn {
    connection: Connection,
    packet: Box<[u8]>,
    /// Where the TCP header begins.
    tcp: usize,
    /// Where the timestamp's value is.
    timestamp: Option<usize>,
}

impl Syn {
    /// Reads a packet, IP header first.
    ///
    /// # Errors
    /// [`NotASyn`], also for IPv6 extension headers, which Linux does not send with a SYN by default.
    pub fn parse(packet: &[u8]) -> Result<Self, NotASyn> {
        let truncated = NotASyn::Truncated {
            length: packet.len(),
        };
        let ip = IpHeader::read(packet)?;
        let segment = packet.get(ip.length..).ok_or(truncated)?;
        let header: &[u8; TCP_HEADER] = segment.first_chunk().ok_or(truncated)?;
        let data_offset = usize::from(header[12] >> 4) * 4;
        if data_offset < TCP_HEADER || ip.length + data_offset > ip.total {
            return Err(NotASyn::Header);
        }
        // The data may be truncated.
        let options = segment.get(TCP_HEADER..data_offset).ok_or(truncated)?;
        // FIN, SYN, RST and ACK: the same test as in the rule that copies the packet.
        if header[13] & 0x17 != 0x02 {
            return Err(NotASyn::Flags);
        }
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        Ok(Self {
            connection: Connection {
                source: SocketAddr::new(ip.source, port(0)),
                destination: SocketAddr::new(ip.destination, port(2)),
            },
            timestamp: timestamp(options).map(|at| ip.length + TCP_HEADER + at),
            tcp: ip.length,
            packet: without_data(&packet[..ip.length + data_offset], &ip),
        })
    }

    pub fn connection(&self) -> Connection {
        self.connection
    }

    /// The sequence number that the connection starts with: the same in every retransmission.
    pub fn sequence(&self) -> u32 {
        self.number(self.tcp + 4)
    }

    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub fn len(&self) -> usize {
        self.packet.len()
    }

    /// The packet as the kernel would retransmit it now, `age` after it was copied, with advanced timestamp and
    /// correct checksums.
    ///
    /// `age` may be too short but not too long: otherwise the peer echoes a future timestamp, and the kernel rejects
    /// the reply
    /// ([tcp_rcv_synsent_state_process](https://github.com/torvalds/linux/blob/v6.12/net/ipv4/tcp_input.c)). Linux
    /// counts timestamps in milliseconds, or in microseconds where the route requests it; then the advance is too
    /// short, which only makes the first round trip time appear long.
    pub fn prepared_for_injection(&self, age: Duration) -> Vec<u8> {
        let mut packet = self.packet.to_vec();
        if let Some(at) = self.timestamp {
            let age = u32::try_from(age.as_millis()).unwrap_or(u32::MAX);
            let now = self.number(at).wrapping_add(age);
            packet[at..at + 4].copy_from_slice(&now.to_be_bytes());
        }
        let (header, segment) = packet.split_at_mut(self.tcp);
        put_checksum(segment, CHECKSUM_IN_TCP, self.pseudo_header());
        if self.connection.source.is_ipv4() {
            put_checksum(header, CHECKSUM_IN_IPV4, 0);
        }
        packet
    }

    /// Sum of what TCP's checksum covers besides the segment: addresses, protocol, length.
    fn pseudo_header(&self) -> u64 {
        let address = |address: SocketAddr| match address.ip() {
            IpAddr::V4(address) => sum(&address.octets()),
            IpAddr::V6(address) => sum(&address.octets()),
        };
        let length = (self.packet.len() - self.tcp) as u64;
        address(self.connection.source)
            + address(self.connection.destination)
            + u64::from(TCP)
            + length
    }

    /// Four bytes whose presence `parse` has checked.
    fn number(&self, at: usize) -> u32 {
        let bytes = self.packet.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().map_or(0, u32::from_be_bytes)
    }
}

struct IpHeader {
    source: IpAddr,
    destination: IpAddr,
    length: usize,
    /// Length of the packet, this header included.
    total: usize,
}

impl IpHeader {
    fn read(packet: &[u8]) -> Result<Self, NotASyn> {
        let truncated = NotASyn::Truncated {
            length: packet.len(),
        };
        match packet.first().ok_or(truncated)? >> 4 {
            4 => Self::ipv4(packet.first_chunk().ok_or(truncated)?),
            6 => Self::ipv6(packet.first_chunk().ok_or(truncated)?),
            _ => Err(NotASyn::Protocol),
        }
    }

    fn ipv4(header: &[u8; 20]) -> Result<Self, NotASyn> {
        let length = usize::from(header[0] & 0x0f) * 4;
        // More fragments, or an offset: only the bit that forbids fragments may be set.
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        if length < header.len() || is_fragment {
            return Err(NotASyn::Header);
        }
        if header[9] != TCP {
            return Err(NotASyn::Protocol);
        }
        let [.., a, b, c, d, e, f, g, h] = *header;
        Ok(Self {
            source: Ipv4Addr::new(a, b, c, d).into(),
            destination: Ipv4Addr::new(e, f, g, h).into(),
            length,
            total: u16::from_be_bytes([header[2], header[3]]).into(),
        })
    }

    fn ipv6(header: &[u8; 40]) -> Result<Self, NotASyn> {
        if header[6] != TCP {
            return Err(NotASyn::Protocol);
        }
        let address = |at: usize| {
            let bytes = header.get(at..).and_then(<[u8]>::first_chunk::<16>);
            bytes.map(|bytes| IpAddr::from(Ipv6Addr::from(*bytes)))
        };
        let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
        Ok(Self {
            source: address(8).ok_or(NotASyn::Header)?,
            destination: address(24).ok_or(NotASyn::Header)?,
            length: header.len(),
            total: header.len() + payload,
        })
    }
}

/// Shortens a packet to these headers.
fn without_data(headers: &[u8], ip: &IpHeader) -> Box<[u8]> {
    let mut packet: Box<[u8]> = headers.into();
    let (place, length) = if ip.source.is_ipv4() {
        (LENGTH_IN_IPV4, packet.len())
    } else {
        (LENGTH_IN_IPV6, packet.len() - ip.length)
    };
    let [.., high, low] = length.to_be_bytes();
    packet[place..place + 2].copy_from_slice(&[high, low]);
    packet
}

/// Where the value of the timestamp option begins.
fn timestamp(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at..)? {
            [1, ..] => at += 1,
            [8, 10, _, _, _, _, _, _, _, _, ..] => return Some(at + 2),
            // The end of the list is kind 0.
            [kind, length, ..] if kind != 0 && length >= 2 => at += usize::from(length),
            _ => return None,
        }
    }
}

/// Sum of the 16-bit words of `bytes`, big-endian, for the Internet checksum ([RFC
/// 1071](https://www.rfc-editor.org/rfc/rfc1071)).
fn sum(bytes: &[u8]) -> u64 {
    let word = |word: &[u8]| match *word {
        [high, low] => u64::from(u16::from_be_bytes([high, low])),
        [high] => u64::from(high) << 8,
        _ => 0,
    };
    bytes.chunks(2).map(word).sum()
}

/// Writes the checksum of `bytes` and of the sum `beside` to `place`.
fn put_checksum(bytes: &mut [u8], place: usize, beside: u64) {
    bytes[place..place + 2].fill(0);
    let mut folded = sum(bytes) + beside;
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    let checksum = !(folded as u16);
    bytes[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests;
