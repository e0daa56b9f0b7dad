//! Test packets, and the filter result that follows from their fields and not from their bytes.

use std::net::IpAddr;

use etherparse::PacketBuilder;

use super::kernel::run;
use crate::capture::filter::*;

/// The fields of a packet, from which its bytes are generated.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) hardware: u16,
    pub(super) interface: u32,
    pub(super) outgoing: bool,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) kind: Kind,
    /// Whether the packet is an ARP packet.
    pub(super) is_arp: bool,
    pub(super) options: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Tcp(u16, u16),
    Udp(u16, u16),
    Icmp,
    Other,
    /// A later fragment of TCP.
    Fragment,
}

impl Sample {
    fn protocol(&self) -> u16 {
        match (self.is_arp, self.source.is_ipv4()) {
            (true, _) => 0x0806,
            (false, true) => IPV4,
            (false, false) => IPV6,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let link = vec![0; usher_core::node::packet::Link::of(self.hardware).header()];
        if self.is_arp {
            return [link, vec![0; 28]].concat();
        }
        let builder = match (self.source, self.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = etherparse::Ipv4Header {
                    time_to_live: 64,
                    source: from.octets(),
                    destination: to.octets(),
                    ..Default::default()
                };
                header.options = vec![1; self.options * 4][..].try_into().unwrap();
                if matches!(self.kind, Kind::Fragment) {
                    header.fragment_offset = 1.try_into().unwrap();
                }
                PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                PacketBuilder::ipv6(from.octets(), to.octets(), 64)
            }
            mixed => panic!("{mixed:?}"),
        };
        let mut bytes = link;
        let written = match self.kind {
            Kind::Tcp(from, to) => builder.tcp(from, to, 1, 1024).write(&mut bytes, b"abc"),
            Kind::Udp(from, to) => builder.udp(from, to).write(&mut bytes, b"abc"),
            Kind::Icmp if self.source.is_ipv4() => {
                builder.icmpv4_echo_request(1, 1).write(&mut bytes, b"abc")
            }
            Kind::Icmp => builder.icmpv6_echo_request(1, 1).write(&mut bytes, b"abc"),
            Kind::Other => builder.write(&mut bytes, 132.into(), &[0; 8]),
            // Payload bytes at the position of the ports.
            Kind::Fragment => builder.write(&mut bytes, TCP.into(), &[0, 80, 0, 80, 0, 0, 0, 0]),
        };
        written.unwrap();
        bytes
    }

    /// The expected result of the filter.
    pub(super) fn is_wanted(&self, filter: &Filter) -> bool {
        let is_loopback = self.hardware == LOOPBACK;
        if is_loopback && self.outgoing {
            return false;
        }
        let on_interface =
            filter.interfaces.is_empty() || filter.interfaces.contains(&self.interface);
        let this_way = filter
            .direction
            .is_none_or(|direction| is_loopback || (direction == Direction::Out) == self.outgoing);
        let is_ip_only =
            !filter.hosts.is_empty() || !filter.protocols.is_empty() || !filter.ports.is_empty();
        if !(on_interface && this_way) || (is_ip_only && self.is_arp) {
            return false;
        }
        let is_within = |host: &Host, address: IpAddr| match (host.address, address) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(host.prefix);
                u64::from(u32::from(net)) >> shift == u64::from(u32::from(address)) >> shift
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(host.prefix);
                let [net, address] = [net, address].map(u128::from);
                shift == 128 || net >> shift == address >> shift
            }
            _ => false,
        };
        let has_host = filter.hosts.is_empty()
            || filter
                .hosts
                .iter()
                .any(|host| is_within(host, self.source) || is_within(host, self.destination));
        let has_protocol = filter.protocols.is_empty()
            || filter.protocols.iter().any(|protocol| {
                matches!(
                    (protocol, self.kind),
                    (Protocol::Tcp, Kind::Tcp(..) | Kind::Fragment)
                        | (Protocol::Udp, Kind::Udp(..))
                        | (Protocol::Icmp, Kind::Icmp)
                )
            });
        let has_port = filter.ports.is_empty()
            || match self.kind {
                Kind::Tcp(from, to) | Kind::Udp(from, to) => {
                    filter.ports.contains(&from) || filter.ports.contains(&to)
                }
                _ => false,
            };
        has_host && has_protocol && has_port
    }

    pub(super) fn verdict(&self, program: &[Instruction]) -> u32 {
        let outgoing = if self.outgoing { OUTGOING } else { 0 };
        let info = |offset| match offset {
            0 => self.protocol().into(),
            4 => outgoing,
            8 => self.interface,
            28 => self.hardware.into(),
            other => panic!("no metadata at {other}"),
        };
        run(program, &self.bytes(), info)
    }
}
