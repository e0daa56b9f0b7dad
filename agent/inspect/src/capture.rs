//! Packets of a pod: which are wanted, how they are written to a file, and how they look as a line.
//!
//! The kernel is asked for them with a [`Filter`], which becomes a program that it runs for each packet before it copies
//! anything. What comes is a [`Packet`]; [`pcapng`] writes it down for other programs, [`mod@line`] for people. Everything in
//! a packet is the pod's and may be anything: nothing here panics on it.

pub mod filter;
pub mod line;
pub mod pcapng;

pub use self::{filter::Filter, pcapng::Writer};

/// Protocols behind a link header.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

/// Protocols behind an IP header.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
