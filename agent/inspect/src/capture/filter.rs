//! A packet filter as a program for the kernel.
//!
//! Classic BPF ([filter.txt](https://www.kernel.org/doc/html/v6.12/networking/filter.html)): the kernel runs it for each
//! packet, before anything is copied or counted. One socket receives from all interfaces, so the hardware type of the
//! interface determines the link header, and everything after it is read relative to its end. A packet that is too short for
//! a read does not match. IPv6 extension headers are not followed, and only the first fragment of a packet has ports, as with
//! tcpdump.
//!
//! Conditional jumps reach 255 instructions. All of them are short here: an alternative that matches continues with an
//! unconditional jump, which has no limit.

mod instruction;

use std::net::IpAddr;

use usher_core::node::packet::{Direction, ETHERNET, ETHERNET_HEADER, Instruction, LOOPBACK};

use self::instruction::{Info, Program};
use super::{ICMP, ICMPV6, IPV4, IPV6, TCP, UDP};

/// Limit of values of one kind: the kernel accepts at most 4,096 instructions.
pub const MAX_VALUES: usize = 32;

/// `PACKET_OUTGOING`.
const OUTGOING: u32 = 4;

/// A protocol after the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    /// ICMP, or ICMPv6.
    Icmp,
}

/// A host or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    address: IpAddr,
    prefix: u8,
}

/// A text is neither an IP address nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid IP address or network {0:?}, use for example 10.0.0.0/8")]
pub struct InvalidHost(String);

impl std::str::FromStr for Host {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let invalid = || InvalidHost(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_invalid| invalid())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_invalid| invalid())?,
            None => max,
        };
        if prefix > max {
            return Err(invalid());
        }
        Ok(Self { address, prefix })
    }
}

impl Host {
    /// The words of the address that the prefix covers, each with its mask.
    fn words(self) -> Vec<(u32, u32)> {
        let words: Vec<u32> = match self.address {
            IpAddr::V4(address) => vec![u32::from(address)],
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                [96, 64, 32, 0].map(|by| (bits >> by) as u32).to_vec()
            }
        };
        let mask = |at: usize| {
            let bits = u32::from(self.prefix)
                .saturating_sub(32 * at as u32)
                .min(32);
            u32::MAX.checked_shl(32 - bits).unwrap_or(0)
        };
        let masked = words.iter().enumerate();
        masked
            .map(|(at, word)| (word & mask(at), mask(at)))
            .take_while(|(_, mask)| *mask != 0)
            .collect()
    }
}

/// A packet matches if each non-empty list contains a matching value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub interfaces: Vec<u32>,
    /// Packets on loopback match both directions.
    pub direction: Option<Direction>,
    pub protocols: Vec<Protocol>,
    pub hosts: Vec<Host>,
    /// TCP or UDP ports at either end.
    pub ports: Vec<u16>,
}

impl Filter {
    /// The program that captures the first `length` bytes of each matching packet. Only the first [`MAX_VALUES`] values of a
    /// list are used.
    ///
    /// Loopback has each packet twice, outgoing and incoming: the program drops the outgoing one.
    pub fn program(&self, length: u32) -> Vec<Instruction> {
        let mut program = Program::default();
        program.load(Info::Hardware);
        program.when(u32::from(LOOPBACK), |program| {
            program.load(Info::Reception);
            program.reject_if(OUTGOING);
        });
        if !self.interfaces.is_empty() {
            program.load(Info::Interface);
            program.one_of(self.interfaces.iter().take(MAX_VALUES).copied());
        }
        if let Some(direction) = self.direction {
            direction_program(&mut program, direction);
        }
        if self.protocols.is_empty() && self.hosts.is_empty() && self.ports.is_empty() {
            program.accept(length);
            return program.finish();
        }
        program.set_x(ETHERNET_HEADER as u32);
        program.load(Info::Hardware);
        program.either(&[u32::from(ETHERNET), u32::from(LOOPBACK)], |program| {
            program.set_x(0);
        });
        program.load(Info::Protocol);
        for (number, family) in [(IPV4, &V4), (IPV6, &V6)] {
            program.when(u32::from(number), |program| {
                self.packet_program(program, family);
                program.accept(length);
            });
        }
        program.reject();
        program.finish()
    }

    fn packet_program(&self, program: &mut Program, family: &Family) {
        if !self.hosts.is_empty() {
            let hosts = self.hosts.iter().take(MAX_VALUES);
            let of_family = hosts.filter(|host| host.address.is_ipv4() == family.is_ipv4);
            let hosts: Vec<_> = of_family.map(|host| host.words()).collect();
            program.any(|alternatives| {
                for words in &hosts {
                    for at in family.addresses {
                        alternatives.words(at, words);
                    }
                }
            });
        }
        if !self.protocols.is_empty() {
            program.load_byte(family.protocol);
            program.one_of(
                self.protocols
                    .iter()
                    .take(MAX_VALUES)
                    .map(|protocol| match protocol {
                        Protocol::Tcp => TCP.into(),
                        Protocol::Udp => UDP.into(),
                        Protocol::Icmp => family.icmp.into(),
                    }),
            );
        }
        if !self.ports.is_empty() {
            program.load_byte(family.protocol);
            program.one_of([TCP.into(), UDP.into()].into_iter());
            family.to_ports(program);
            program.any(|alternatives| {
                for at in [0, 2] {
                    alternatives.halves(at, self.ports.iter().take(MAX_VALUES).copied());
                }
            });
        }
    }
}

fn direction_program(program: &mut Program, direction: Direction) {
    program.load(Info::Hardware);
    program.either(&[LOOPBACK.into()], |program| {
        program.load(Info::Reception);
        match direction {
            Direction::In => program.reject_if(OUTGOING),
            Direction::Out => program.one_of([OUTGOING].into_iter()),
        }
    });
}

/// Offsets in an IP header.
struct Family {
    is_ipv4: bool,
    addresses: [u32; 2],
    protocol: u32,
    icmp: u8,
}

const V4: Family = Family {
    is_ipv4: true,
    addresses: [12, 16],
    protocol: 9,
    icmp: ICMP,
};
const V6: Family = Family {
    is_ipv4: false,
    addresses: [8, 24],
    protocol: 6,
    icmp: ICMPV6,
};

impl Family {
    /// Moves X to the end of the IP header.
    fn to_ports(&self, program: &mut Program) {
        if self.is_ipv4 {
            program.load_half(6);
            program.reject_if_set(0x1fff);
            program.load_byte(0);
            program.skip_words_of_low_nibble();
        } else {
            program.skip(40);
        }
    }
}

#[cfg(test)]
mod tests;
