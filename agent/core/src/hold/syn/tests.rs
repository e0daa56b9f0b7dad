//! Compared with etherparse, which creates the packets and checks the checksums.

use etherparse::{
    NetSlice, PacketBuilder, SlicedPacket,
    TcpOptionElement::{self, *},
    TransportSlice,
};
use proptest::{array::uniform32, collection::vec, prelude::*};

use super::super::syn::*;

/// The options of Linux in a SYN.
const LINUX: [TcpOptionElement; 5] = [
    MaximumSegmentSize(65495),
    SelectiveAcknowledgementPermitted,
    Timestamp(1_000, 0),
    Noop,
    WindowScale(7),
];

#[derive(Debug, Clone, Copy)]
struct Ends {
    /// The first half is the source; the first four bytes of each half are its IPv4 address.
    addresses: [u8; 32],
    is_ipv4: bool,
    source: u16,
    destination: u16,
    sequence: u32,
}

const ENDS: Ends = Ends {
    addresses: [7; 32],
    is_ipv4: true,
    source: 40_000,
    destination: 8080,
    sequence: 9,
};

impl Ends {
    fn builder(&self) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
        let (from, to) = self.addresses.split_at(16);
        if self.is_ipv4 {
            PacketBuilder::ipv4(
                from[..4].try_into().unwrap(),
                to[..4].try_into().unwrap(),
                64,
            )
        } else {
            PacketBuilder::ipv6(from.try_into().unwrap(), to.try_into().unwrap(), 64)
        }
    }

    fn packet(&self, options: &[TcpOptionElement]) -> Vec<u8> {
        self.packet_with(options, &[])
    }

    /// A packet as the kernel copies it, with wrong checksums.
    fn packet_with(&self, options: &[TcpOptionElement], data: &[u8]) -> Vec<u8> {
        let step = self
            .builder()
            .tcp(self.source, self.destination, self.sequence, 64_240);
        let step = step.syn().options(options).unwrap();
        let mut packet = Vec::new();
        step.write(&mut packet, data).unwrap();
        let checksum = if self.is_ipv4 { 20 } else { 40 } + CHECKSUM_IN_TCP;
        packet[checksum..checksum + 2].copy_from_slice(&[0xfe, 0x30]);
        packet
    }
}

fn ends() -> impl Strategy<Value = Ends> {
    let numbers = (any::<u16>(), any::<u16>(), any::<u32>());
    (uniform32(any::<u8>()), any::<bool>(), numbers).prop_map(
        |(addresses, is_ipv4, (source, destination, sequence))| Ends {
            addresses,
            is_ipv4,
            source,
            destination,
            sequence,
        },
    )
}

fn options() -> impl Strategy<Value = Vec<TcpOptionElement>> {
    let option = prop_oneof![
        Just(Noop),
        any::<u16>().prop_map(MaximumSegmentSize),
        any::<u8>().prop_map(WindowScale),
        Just(SelectiveAcknowledgementPermitted),
        (any::<u32>(), Just(0)).prop_map(|(value, echo)| Timestamp(value, echo)),
    ];
    vec(option, 0..5).prop_filter("40 bytes at most", |options| {
        ENDS.builder().tcp(1, 2, 3, 4).options(options).is_ok()
    })
}

/// Checks the checksums of a packet, and returns its first timestamp.
fn judged(packet: &[u8]) -> Option<u32> {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
        panic!("{sliced:?}");
    };
    let expected = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(
                header.header_checksum(),
                header.to_header().calc_header_checksum()
            );
            tcp.calc_checksum_ipv4(header.source(), header.destination())
        }
        NetSlice::Ipv6(ip) => {
            tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(tcp.checksum(), expected.unwrap());
    tcp.options_iterator().find_map(|option| match option {
        Ok(Timestamp(value, _)) => Some(value),
        _ => None,
    })
}

proptest! {
    #[test]
    fn injected_packet_keeps_the_connection_and_valid_checksums(
        ends in ends(),
        options in options(),
        age in 0..600_000_u64,
    ) {
        let packet = ends.packet(&options);
        let syn = Syn::parse(&packet).unwrap();
        prop_assert_eq!(syn.connection().source.port(), ends.source);
        prop_assert_eq!(syn.connection().destination.port(), ends.destination);
        prop_assert_eq!(syn.sequence(), ends.sequence);
        let prepared = syn.prepared_for_injection(Duration::from_millis(age));
        prop_assert_eq!(prepared.len(), packet.len());
        let again = Syn::parse(&prepared).unwrap();
        prop_assert_eq!(again.connection(), syn.connection());
        prop_assert_eq!(again.sequence(), syn.sequence());
        let before = options.iter().find_map(|option| match option {
            Timestamp(value, _) => Some(*value),
            _ => None,
        });
        prop_assert_eq!(judged(&prepared), before.map(|value| value.wrapping_add(age as u32)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(syn) = Syn::parse(&bytes) {
            syn.prepared_for_injection(Duration::MAX);
        }
    }

    #[test]
    fn broken_syn_is_read_or_refused(
        ends in ends(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        length in any::<prop::sample::Index>(),
    ) {
        let mut packet = ends.packet(&LINUX);
        let at = at.index(packet.len());
        packet[at] = byte;
        packet.truncate(length.index(packet.len() + 1));
        if let Ok(syn) = Syn::parse(&packet) {
            let prepared = syn.prepared_for_injection(Duration::from_secs(1));
            prop_assert_eq!(Syn::parse(&prepared).unwrap().connection(), syn.connection());
        }
    }
}

#[test]
fn refused() {
    let good = ENDS.packet(&LINUX);
    let with = |at: usize, byte: u8| {
        let mut packet = good.clone();
        packet[at] = byte;
        Syn::parse(&packet).unwrap_err()
    };
    let truncated = NotASyn::Truncated { length: 59 };
    assert_eq!(Syn::parse(&good[..59]).unwrap_err(), truncated);
    let nothing = NotASyn::Truncated { length: 0 };
    assert_eq!(Syn::parse(&[]).unwrap_err(), nothing);
    assert_eq!(with(0, 0x55), NotASyn::Protocol);
    assert_eq!(with(9, 17), NotASyn::Protocol);
    assert_eq!(with(0, 0x44), NotASyn::Header);
    assert_eq!(with(6, 0x20), NotASyn::Header);
    assert_eq!(with(3, 39), NotASyn::Header);
    assert_eq!(with(32, 0xf0), NotASyn::Header);
    assert_eq!(with(32, 0x40), NotASyn::Header);
    assert_eq!(with(33, 0x12), NotASyn::Flags);
}

#[test]
fn reasons_for_refused_packets() {
    for (error, kind, text) in [
        (
            NotASyn::Truncated { length: 7 },
            "truncated",
            "packet of 7 bytes is cut off",
        ),
        (
            NotASyn::Header,
            "header",
            "packet has a malformed or fragmented IP or TCP header",
        ),
        (
            NotASyn::Protocol,
            "protocol",
            "packet is not TCP right after an IP header",
        ),
        (
            NotASyn::Flags,
            "flags",
            "packet does not open a TCP connection",
        ),
    ] {
        assert_eq!((error.kind(), &error.to_string()[..]), (kind, text));
    }
}

#[test]
fn both_ends_identify_a_connection() {
    for (is_ipv4, expected) in [
        (true, "7.7.7.7:40000 to 7.7.7.7:8080"),
        (
            false,
            "[707:707:707:707:707:707:707:707]:40000 to [707:707:707:707:707:707:707:707]:8080",
        ),
    ] {
        let syn = Syn::parse(&Ends { is_ipv4, ..ENDS }.packet(&LINUX)).unwrap();
        assert_eq!(syn.connection().to_string(), expected);
    }
}

/// TCP Fast Open sends data with the SYN. A copy may contain only the first bytes of it.
#[test]
fn data_is_left_out() {
    for is_ipv4 in [true, false] {
        let ends = Ends { is_ipv4, ..ENDS };
        let expected = Syn::parse(&ends.packet(&LINUX)).unwrap();
        for data in [&b"a"[..], b"ab", &[7; 1000]] {
            let packet = ends.packet_with(&LINUX, data);
            for copied in [packet.len(), expected.len()] {
                let syn = Syn::parse(&packet[..copied]).unwrap();
                let [prepared, expected] = [&syn, &expected]
                    .map(|syn| syn.prepared_for_injection(Duration::from_millis(5)));
                assert_eq!(judged(&prepared), Some(1_005));
                assert_eq!(prepared, expected);
            }
        }
    }
}

#[test]
fn ip_options_are_part_of_the_packet() {
    let mut packet = ENDS.packet(&LINUX);
    packet.splice(20..20, [1; 4]);
    packet[0] = 0x46;
    packet[3] += 4;
    let syn = Syn::parse(&packet).unwrap();
    assert_eq!(syn.sequence(), ENDS.sequence);
    let prepared = syn.prepared_for_injection(Duration::from_millis(5));
    assert_eq!(judged(&prepared), Some(1_005));
}

#[test]
fn where_the_timestamp_is() {
    let value = [8, 10, 1, 2, 3, 4, 0, 0, 0, 0];
    for (before, expected) in [
        (&[][..], Some(2)),
        (&[1, 1], Some(4)),
        (&[2, 4, 5, 180, 1], Some(7)),
        // Bytes after the end of the list are no options.
        (&[0], None),
        (&[0, 2], None),
        // Kind and length alone are two bytes.
        (&[5, 1], None),
        (&[5, 0], None),
        // Longer than the remaining bytes.
        (&[5, 200], None),
    ] {
        let options = [before, &value].concat();
        assert_eq!(timestamp(&options), expected, "{before:?}");
    }
    assert_eq!(timestamp(&value[..9]), None);
}

#[test]
fn checksums_at_the_edge_of_a_word() {
    for (rest, beside, expected) in [
        ([0x00, 0x01], 0, 0xfffe),
        ([0xff, 0xff], 0, 0),
        // The carry is added to the other end.
        ([0xff, 0xff], 1, 0xfffe),
        ([0xff, 0xff], 0x1_0000, 0xfffe),
    ] {
        let mut bytes = [0xaa, 0xaa, rest[0], rest[1]];
        put_checksum(&mut bytes, 0, beside);
        assert_eq!(
            u16::from_be_bytes([bytes[0], bytes[1]]),
            expected,
            "{rest:?} {beside}"
        );
    }
}

#[test]
fn trailing_bytes_are_not_part_of_the_packet() {
    let mut packet = ENDS.packet(&LINUX);
    let syn = Syn::parse(&packet).unwrap();
    packet.extend([1; 8]);
    assert_eq!(Syn::parse(&packet).unwrap(), syn);
}

#[test]
fn newest_copy_of_each_connection_is_kept() {
    let at = |ms| crate::base::time::Timestamp::new(Duration::from_millis(ms));
    let syn = |source, sequence| {
        let ends = Ends {
            source,
            sequence,
            ..ENDS
        };
        Syn::parse(&ends.packet(&LINUX)).unwrap()
    };
    let mut copies = Copies::default();
    copies.keep(syn(1, 10), at(0));
    assert!(!copies.is_empty());
    copies.keep(syn(2, 20), at(1));
    copies.keep(syn(1, 10), at(2));
    assert_eq!((copies.len(), copies.connections()), (2, 2));
    // Another connection with the same endpoints.
    copies.keep(syn(2, 21), at(3));
    assert_eq!((copies.len(), copies.connections()), (2, 3));
    assert_eq!(copies.iter().count(), 2);
    let taken = copies.take(usize::MAX);
    let of = |held: &Held| (held.syn.sequence(), held.arrived, held.since);
    assert_eq!(
        taken.iter().map(of).collect::<Vec<_>>(),
        [(10, at(2), at(0)), (21, at(3), at(3))]
    );
    assert!(copies.is_empty());
    assert_eq!((copies.connections(), copies.dropped()), (3, 0));
}

#[test]
fn restored_copy_keeps_its_wait_time() {
    let at = |ms| crate::base::time::Timestamp::new(Duration::from_millis(ms));
    let syn = || Syn::parse(&ENDS.packet(&LINUX)).unwrap();
    let mut copies = Copies::default();
    copies.keep(syn(), at(0));
    let bytes = copies.bytes();
    let taken = copies.take(1).remove(0);
    copies.put_back(taken.clone());
    assert_eq!(copies.bytes(), bytes);
    assert_eq!(copies.iter().next(), Some(&taken));
    // The table dropped the packet that was sent, and copied it again.
    copies.keep(syn(), at(700));
    copies.put_back(taken);
    let times = copies.iter().map(|held| (held.arrived, held.since));
    assert_eq!(times.collect::<Vec<_>>(), [(at(700), at(0))]);
    assert_eq!((copies.connections(), copies.dropped()), (1, 0));
}

#[test]
fn oldest_copy_is_dropped_at_the_limit() {
    let mut copies = Copies::default();
    for source in 1..=MOST_COPIES as u16 + 2 {
        let ends = Ends { source, ..ENDS };
        let syn = Syn::parse(&ends.packet(&LINUX)).unwrap();
        copies.keep(syn, crate::base::time::Timestamp::default());
    }
    assert_eq!((copies.len(), copies.dropped()), (MOST_COPIES, 2));
    let first = copies.take(1);
    assert_eq!(first[0].syn.connection().source.port(), 3);
}
