use etherparse::PacketBuilder;
use proptest::{collection::vec, prelude::*};
use usher_core::node::packet::{ETHERNET, LOOPBACK, Reception};

use super::super::line::*;

fn packet(hardware: u16, protocol: u16, bytes: &[u8]) -> Packet<'_> {
    Packet {
        at_ns: 0,
        interface: 1,
        hardware,
        protocol,
        reception: Reception::Own,
        vlan: None,
        length: bytes.len() as u32,
        bytes,
    }
}

fn line(hardware: u16, protocol: u16, bytes: &[u8]) -> String {
    Summary::of(&packet(hardware, protocol, bytes)).to_string()
}

#[test]
fn lines_are_exact() {
    let v4 = || PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let v6 = || PacketBuilder::ipv6([1; 16], [2; 16], 64);
    let mut bytes = Vec::new();
    v4().tcp(4000, 80, 1, 1)
        .syn()
        .ack(2)
        .write(&mut bytes, b"four")
        .unwrap();
    assert_eq!(
        line(ETHERNET, IPV4, &bytes),
        "in  tcp  10.0.0.1:4000 > 10.0.0.2:80 [S.] payload 4 length 58"
    );
    let cut = &bytes[..14 + 20 + 6];
    assert_eq!(
        line(LOOPBACK, IPV4, cut),
        "-   part 10.0.0.1:4000 > 10.0.0.2:80 length 40"
    );
    bytes.clear();
    v6().udp(53, 4000).write(&mut bytes, b"no").unwrap();
    assert_eq!(
        line(65534, IPV6, &bytes),
        "in  udp  [101:101:101:101:101:101:101:101]:53 > \
         [202:202:202:202:202:202:202:202]:4000 payload 2 length 50"
    );
    bytes.clear();
    v4().icmpv4_echo_request(1, 1)
        .write(&mut bytes, b"")
        .unwrap();
    assert_eq!(
        line(ETHERNET, IPV4, &bytes),
        "in  icmp 10.0.0.1 > 10.0.0.2 type 8 code 0 length 42"
    );
    assert_eq!(line(ETHERNET, ARP, &[0; 42]), "in  arp  length 42");
    assert_eq!(
        line(ETHERNET, 0x88cc, &[0; 20]),
        "in  link protocol 0x88cc length 20"
    );
    assert_eq!(line(ETHERNET, IPV4, &[]), "in  part length 0");
}

proptest! {
    #[test]
    fn any_bytes_give_a_printable_line(
        bytes in vec(any::<u8>(), 0..90),
        hardware in prop_oneof![Just(ETHERNET), Just(LOOPBACK), Just(65534)],
        protocol in prop_oneof![Just(IPV4), Just(IPV6), Just(ARP), any::<u16>()],
    ) {
        let line = line(hardware, protocol, &bytes);
        prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", line);
    }
}
