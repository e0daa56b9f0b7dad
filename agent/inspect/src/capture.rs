//! Packets of a pod: the filter, the file format, and a line per packet.
//!
//! A [`Filter`] becomes a BPF program that the kernel runs for each packet before it copies anything. [`pcapng`] writes a
//! packet to a file, and [`mod@line`] prints it. Packets are untrusted: nothing here panics on any content.

pub mod filter;
pub mod line;
pub mod pcapng;

pub use self::{filter::Filter, pcapng::Writer};

/// Protocols after the link header.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

/// Protocols after the IP header.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
