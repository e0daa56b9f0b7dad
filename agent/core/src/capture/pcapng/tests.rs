use pcap_parser::{
    Block, PcapBlockOwned, PcapNGReader,
    traits::{PcapNGPacketBlock, PcapReaderIterator},
};
use proptest::{collection::vec, prelude::*};

use super::*;

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

/// Has another program's reader look at each block.
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

#[test]
fn another_reader_finds_what_was_written() {
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
            let texts: Vec<_> = section
                .options
                .iter()
                .map(pcap_parser::PcapNGOption::value)
                .collect();
            let expected: [&[u8]; 4] = [b"Linux 6.12", b"usher 0.1.0", b"of shop/report", b""];
            // The reader gives the padding as well.
            for (text, expected) in texts.iter().zip(expected) {
                assert!(text.starts_with(expected), "{text:?}");
            }
        }
        (1 | 2, Block::InterfaceDescription(interface)) => {
            let (link, name) = [(1, "eth0"), (101, "tun0")][at - 1];
            assert_eq!((interface.linktype.0, interface.snaplen), (link, 256));
            assert_eq!(interface.if_tsresol, 9);
            assert!(interface.options[0].value().starts_with(name.as_bytes()));
        }
        (3, Block::EnhancedPacket(packet)) => {
            assert_eq!((packet.if_id, packet.caplen, packet.origlen), (0, 5, 1500));
            let at_ns = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            assert_eq!(at_ns, 1_800_000_000_123_456_789);
            assert_eq!(packet.packet_data(), [1, 2, 3, 4, 5]);
            assert_eq!(packet.options[0].value()[..4], 2_u32.to_le_bytes());
            assert!(packet.options[1].value().starts_with(b"who"));
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
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(count, 5);
}

#[test]
fn tag_that_the_kernel_took_is_put_back() {
    let mut writer = Writer::default();
    writer.section("", "", "");
    writer.interface(&interface("eth0", 1), 256, "");
    let bytes: Vec<u8> = (0..20).collect();
    let tagged = Packet {
        vlan: Some((0x8100, 0x0123)),
        ..packet(&bytes)
    };
    writer.packet(0, &tagged, None);
    read(writer.bytes(), |_, block| {
        if let Block::EnhancedPacket(packet) = block {
            let expected = [&bytes[..12], &[0x81, 0, 0x01, 0x23], &bytes[12..]].concat();
            assert_eq!(packet.packet_data(), expected);
            assert_eq!((packet.caplen, packet.origlen), (24, 1504));
        }
    });
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
