use pcap_parser::{
    Block, PcapBlockOwned, PcapNGOption, PcapNGReader,
    traits::{PcapNGPacketBlock, PcapReaderIterator},
};
use proptest::{collection::vec, prelude::*};
use usher_core::node::packet::LOOPBACK;

use super::super::pcapng::*;

fn interface(name: &str, hardware: u16) -> Interface {
    Interface {
        index: 7,
        name: name.to_owned(),
        hardware,
    }
}

fn packet(bytes: &[u8]) -> Packet<'_> {
    Packet {
        at_ns: 1_800_000_000_123_456_789,
        interface: 7,
        hardware: 1,
        protocol: 0x0800,
        reception: Reception::Outgoing,
        vlan: None,
        length: 1500,
        bytes,
    }
}

/// Parses each block with the reader of another library.
fn read(bytes: &[u8], mut look: impl FnMut(usize, &Block<'_>)) -> usize {
    let mut reader = PcapNGReader::new(1 << 20, bytes).unwrap();
    let mut count = 0;
    loop {
        match reader.next() {
            Ok((length, block)) => {
                match &block {
                    PcapBlockOwned::NG(block) => look(count, block),
                    _legacy => panic!("not pcapng"),
                }
                count += 1;
                reader.consume(length);
            }
            Err(pcap_parser::PcapError::Eof) => return count,
            Err(pcap_parser::PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// The end of a list of options.
const END: (u16, &[u8]) = (0, &[]);

/// Codes and values of options.
fn options<'a>(options: &'a [PcapNGOption<'_>]) -> Vec<(u16, &'a [u8])> {
    let pair = |option: &'a PcapNGOption<'_>| (option.code.0, option.value());
    options.iter().map(pair).collect()
}

#[test]
fn another_library_reads_the_same_blocks() {
    let mut writer = Writer::default();
    writer.section("usher 0.1.0", "Linux 6.12", "of shop/report");
    writer.interface(&interface("eth0", 1), 256, "of shop/report");
    writer.interface(&interface("tun0", 65534), 256, "of shop/report");
    writer.packet(0, &packet(&[1, 2, 3, 4, 5]), Some("who"));
    let statistics = Statistics {
        start_ns: 1 << 32,
        end_ns: (2 << 32) + 5,
        delivered: 1,
        received_and_dropped: Some((3, 2)),
    };
    writer.statistics(0, &statistics, None);
    let count = read(writer.bytes(), |at, block| match (at, block) {
        (0, Block::SectionHeader(section)) => {
            assert_eq!((section.major_version, section.minor_version), (1, 0));
            // The reader includes the padding.
            let expected: [(u16, &[u8]); 4] = [
                (3, b"Linux 6.12\0\0"),
                (4, b"usher 0.1.0\0"),
                (1, b"of shop/report\0\0"),
                (0, b""),
            ];
            assert_eq!(options(&section.options), expected);
        }
        (1 | 2, Block::InterfaceDescription(interface)) => {
            let (link, longest, name) = [(1, 256 + 4, "eth0"), (101, 256, "tun0")][at - 1];
            assert_eq!((interface.linktype.0, interface.snaplen), (link, longest));
            assert_eq!(interface.if_tsresol, 9);
            assert_eq!(options(&interface.options)[0], (2, name.as_bytes()));
            assert_eq!(options(&interface.options).last(), Some(&END));
        }
        (3, Block::EnhancedPacket(packet)) => {
            assert_eq!((packet.if_id, packet.caplen, packet.origlen), (0, 5, 1500));
            let at_ns = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            assert_eq!(at_ns, 1_800_000_000_123_456_789);
            assert_eq!(packet.packet_data(), [1, 2, 3, 4, 5]);
            let expected: [(u16, &[u8]); 3] = [(2, &[2, 0, 0, 0]), (1, b"who\0"), END];
            assert_eq!(options(&packet.options), expected);
        }
        (4, Block::InterfaceStatistics(statistics)) => {
            let value = |code: u16| {
                let option = statistics
                    .options
                    .iter()
                    .find(|option| option.code.0 == code);
                u64::from_le_bytes(option.unwrap().value()[..8].try_into().unwrap())
            };
            let counts = [4, 5, 6, 7, 8].map(value);
            assert_eq!(counts, [3, 2, 3, 2, 1]);
            // The upper half first.
            assert_eq!((value(2), value(3)), (1, 5 << 32 | 2));
            assert_eq!(options(&statistics.options).last(), Some(&END));
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(count, 5);
}

#[test]
fn vlan_tag_is_restored() {
    let bytes: Vec<u8> = (0..20).collect();
    let with_tag = [&bytes[..12], &[0x81, 0, 0x01, 0x23], &bytes[12..]].concat();
    for (hardware, bytes, expected, length) in [
        (1, &bytes[..], &with_tag[..], 1504),
        (1, &bytes[..12], &with_tag[..16], 1504),
        // There is no Ethernet header, or it was not captured completely.
        (65534, &bytes[..], &bytes[..], 1500),
        (1, &bytes[..11], &bytes[..11], 1500),
    ] {
        let tagged = Packet {
            hardware,
            vlan: Some((0x8100, 0x0123)),
            ..packet(bytes)
        };
        let mut writer = Writer::default();
        writer.section("", "", "");
        writer.interface(&interface("a", hardware), bytes.len() as u32, "");
        writer.packet(0, &tagged, None);
        let mut longest = 0;
        let blocks = read(writer.bytes(), |_, block| {
            if let Block::InterfaceDescription(interface) = block {
                longest = interface.snaplen;
            } else if let Block::EnhancedPacket(packet) = block {
                // A reader rejects the rest of a file after a longer packet.
                assert!(packet.caplen <= longest);
                assert_eq!(packet.packet_data(), expected);
                let captured = expected.len() as u32;
                assert_eq!((packet.caplen, packet.origlen), (captured, length));
            }
        });
        assert_eq!(blocks, 3);
    }
}

/// Bits 0 and 1 are the direction, the three above them the reception type.
#[test]
fn flags_of_a_packet() {
    for (hardware, reception, expected) in [
        (1, Reception::Own, 0b00101),
        (1, Reception::Multicast, 0b01001),
        (1, Reception::Broadcast, 0b01101),
        (1, Reception::Other, 0b10001),
        (1, Reception::Outgoing, 0b00010),
        (LOOPBACK, Reception::Own, 0b00100),
        (LOOPBACK, Reception::Outgoing, 0b00000),
    ] {
        let packet = Packet {
            hardware,
            reception,
            ..packet(&[])
        };
        assert_eq!(flags(&packet), expected, "{hardware} {reception:?}");
    }
}

#[test]
fn cleared_buffer_is_empty() {
    let mut writer = Writer::default();
    writer.section("", "", "");
    let section = writer.bytes().to_vec();
    writer.clear();
    assert!(writer.bytes().is_empty());
    writer.section("", "", "");
    assert_eq!(writer.bytes(), section);
}

proptest! {
    #[test]
    fn any_packet_and_any_text_can_be_read(
        bytes in vec(any::<u8>(), 0..300),
        name in "\\PC{0,40}",
        comment in proptest::option::of("[\\x00-\\x{7f}]{0,6000}"),
        length in any::<u32>(),
        vlan in proptest::option::of((any::<u16>(), any::<u16>())),
    ) {
        let mut writer = Writer::default();
        writer.section(&name, &name, &name);
        writer.interface(&interface(&name, 1), u32::MAX, &name);
        writer.packet(0, &Packet { length, vlan, ..packet(&bytes) }, comment.as_deref());
        writer.packet(0, &packet(&bytes), None);
        let mut seen = 0;
        let blocks = read(writer.bytes(), |_, block| {
            if let Block::EnhancedPacket(packet) = block {
                seen += 1;
                assert!(packet.origlen >= packet.caplen);
                if seen == 2 {
                    assert_eq!(packet.packet_data(), bytes);
                }
            }
        });
        prop_assert_eq!((blocks, seen), (4, 2));
    }
}
