//! Which packets are wanted, as a program for the kernel.
//!
//! Classic BPF ([filter.txt](https://www.kernel.org/doc/html/v6.12/networking/filter.html)): the kernel runs it for each
//! packet, before anything is copied or counted. One socket sees all interfaces, so a packet's link header is told by its
//! interface's hardware type and everything behind it is read relative to that. A packet that ends before what is to be read is not
//! wanted. IPv6 extension headers are not followed, and only the first fragment of a packet has ports, as with tcpdump.
//!
//! Conditional jumps reach 255 instructions. All of them are local here: an alternative that holds is followed by an
//! unconditional jump, which reaches everywhere.

mod instruction;

use std::net::IpAddr;

use usher_core::node::packet::{Direction, ETHERNET, ETHERNET_HEADER, Instruction, LOOPBACK};

use self::instruction::{Info, Program};
use super::{ICMP, ICMPV6, IPV4, IPV6, TCP, UDP};

/// More of one kind are not taken: the kernel takes programs of 4,096 instructions.
pub const MOST: usize = 32;

/// `PACKET_OUTGOING`.
const OUTGOING: u32 = 4;

/// A protocol behind an IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP, or ICMPv6.
    Icmp,
}

/// A host, or all of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    address: IpAddr,
    prefix: u8,
}

/// A text is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an IP address nor a network like 10.0.0.0/8")]
pub struct NotAHost(String);

impl std::str::FromStr for Host {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Self, NotAHost> {
        let no = || NotAHost(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_no_address| no())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_no_number| no())?,
            None => most,
        };
        if prefix > most {
            return Err(no());
        }
        Ok(Self { address, prefix })
    }
}

impl Host {
    /// The words of its address that matter, each with its mask.
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

/// Which packets are wanted: those that satisfy every list that is not empty, each by one of its values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Numbers of interfaces.
    pub interfaces: Vec<u32>,
    /// One way only. Loopback has no ways and is always meant.
    pub direction: Option<Direction>,
    /// Protocols.
    pub protocols: Vec<Protocol>,
    /// Hosts at one of the ends.
    pub hosts: Vec<Host>,
    /// Ports at one of the ends, of TCP or UDP.
    pub ports: Vec<u16>,
}

impl Filter {
    /// The program that says to take the first `length` bytes of the packets that are wanted. Of a longer list only the
    /// first [`MOST`] values count.
    ///
    /// On loopback each packet is seen twice, going out and coming in: it takes the second.
    pub fn program(&self, length: u32) -> Vec<Instruction> {
        let mut program = Program::default();
        program.load(Info::Hardware);
        program.when(u32::from(LOOPBACK), |program| {
            program.load(Info::Reception);
            program.refuse_if(OUTGOING);
        });
        if !self.interfaces.is_empty() {
            program.load(Info::Interface);
            program.one_of(self.interfaces.iter().take(MOST).copied());
        }
        if let Some(direction) = self.direction {
            direction_program(&mut program, direction);
        }
        if self.protocols.is_empty() && self.hosts.is_empty() && self.ports.is_empty() {
            program.take(length);
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
                program.take(length);
            });
        }
        program.refuse();
        program.finish()
    }

    fn packet_program(&self, program: &mut Program, family: &Family) {
        if !self.hosts.is_empty() {
            let hosts = self.hosts.iter().take(MOST);
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
                    .take(MOST)
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
                    alternatives.halves(at, self.ports.iter().take(MOST).copied());
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
            Direction::In => program.refuse_if(OUTGOING),
            Direction::Out => program.one_of([OUTGOING].into_iter()),
        }
    });
}

/// Where an IP header has what.
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
    /// Moves X behind the IP header.
    fn to_ports(&self, program: &mut Program) {
        if self.is_ipv4 {
            program.load_half(6);
            program.refuse_if_set(0x1fff);
            program.load_byte(0);
            program.skip_words_of_low_nibble();
        } else {
            program.skip(40);
        }
    }
}

#[cfg(test)]
mod tests;
