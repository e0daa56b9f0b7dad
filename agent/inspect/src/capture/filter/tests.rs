mod kernel;
mod sample;

use std::net::{IpAddr, Ipv6Addr};

use proptest::{collection::vec, option, prelude::*, sample::select};

use self::{
    kernel::run,
    sample::{Kind, Sample},
};
use super::{
    super::filter::*,
    instruction::{JUMP, RETURN},
};

const SNAP: u32 = 96;
const RAW: u16 = 65534;

fn address() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let v4 = || select(vec!["10.0.0.1", "10.0.3.4", "192.168.7.7", "127.0.0.1"]);
    let v6 = || select(vec!["::1", "fd00::1", "fd00:0:0:1::2", "fe80::7"]);
    let parse = |(from, to): (&str, &str)| (from.parse().unwrap(), to.parse().unwrap());
    prop_oneof![(v4(), v4()).prop_map(parse), (v6(), v6()).prop_map(parse)]
}

fn port() -> impl Strategy<Value = u16> {
    select(vec![53_u16, 80, 443, 15001, 15021])
}

fn sample() -> impl Strategy<Value = Sample> {
    let kind = prop_oneof![
        (port(), port()).prop_map(|(from, to)| Kind::Tcp(from, to)),
        (port(), port()).prop_map(|(from, to)| Kind::Udp(from, to)),
        Just(Kind::Icmp),
        Just(Kind::Other),
        Just(Kind::Fragment),
    ];
    (
        select(vec![ETHERNET, LOOPBACK, RAW]),
        1..4_u32,
        any::<bool>(),
        address(),
        kind,
        prop::bool::weighted(0.1),
        0..4_usize,
    )
        .prop_map(
            |(hardware, interface, outgoing, ends, kind, is_arp, options)| Sample {
                hardware,
                interface,
                outgoing,
                source: ends.0,
                destination: ends.1,
                // A fragment of IPv6 has an extension header, which the filter does not follow.
                kind: match kind {
                    Kind::Fragment if ends.0.is_ipv6() => Kind::Other,
                    kind => kind,
                },
                is_arp,
                options,
            },
        )
}

fn host() -> impl Strategy<Value = Host> {
    (address(), any::<u8>()).prop_map(|((address, _), prefix)| Host {
        address,
        prefix: prefix % if address.is_ipv4() { 33 } else { 129 },
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let protocol = select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Icmp]);
    (
        vec(1..4_u32, 0..2),
        option::of(select(vec![Direction::In, Direction::Out])),
        vec(protocol, 0..3),
        vec(host(), 0..3),
        vec(port(), 0..3),
    )
        .prop_map(|(interfaces, direction, protocols, hosts, ports)| Filter {
            interfaces,
            direction,
            protocols,
            hosts,
            ports,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn program_matches_the_same_packets_as_the_filter(sample in sample(), filter in filter()) {
        let verdict = sample.verdict(&filter.program(SNAP));
        let expected = if sample.is_wanted(&filter) { SNAP } else { 0 };
        prop_assert_eq!(verdict, expected);
    }

    #[test]
    fn program_ends_on_any_bytes(bytes in vec(any::<u8>(), 0..80), filter in filter(), hardware in select(vec![ETHERNET, LOOPBACK, RAW]), protocol in select(vec![IPV4, IPV6])) {
        let info = |offset| match offset {
            0 => protocol.into(),
            28 => hardware.into(),
            _ => 1,
        };
        let verdict = run(&filter.program(SNAP), &bytes, info);
        prop_assert!(verdict == 0 || verdict == SNAP);
    }
}

/// A packet received on an Ethernet interface.
fn received(ends: (&str, &str), kind: Kind) -> Sample {
    Sample {
        hardware: ETHERNET,
        interface: 2,
        outgoing: false,
        source: ends.0.parse().unwrap(),
        destination: ends.1.parse().unwrap(),
        kind,
        is_arp: false,
        options: 0,
    }
}

#[test]
fn ports_are_found_after_a_header_of_any_length() {
    let (v4, v6) = (("10.0.0.1", "10.0.3.4"), ("fd00::1", "fe80::7"));
    let program = Filter {
        ports: vec![80],
        ..Filter::default()
    }
    .program(SNAP);
    for (ends, kind, is_wanted) in [
        (v4, Kind::Tcp(40000, 80), true),
        (v4, Kind::Tcp(80, 40000), true),
        (v4, Kind::Udp(40000, 443), false),
        (v4, Kind::Fragment, false),
        (v4, Kind::Icmp, false),
        (v6, Kind::Tcp(40000, 80), true),
        (v6, Kind::Udp(80, 40000), true),
        (v6, Kind::Tcp(40000, 443), false),
        (v6, Kind::Icmp, false),
    ] {
        for options in [0, 3] {
            let sample = Sample {
                options,
                ..received(ends, kind)
            };
            let expected = if is_wanted { SNAP } else { 0 };
            assert_eq!(sample.verdict(&program), expected, "{sample:?}");
        }
    }
}

#[test]
fn kernel_accepts_the_longest_program() {
    let host: Host = "fd00::/127".parse().unwrap();
    let filter = Filter {
        interfaces: vec![7; 100],
        direction: Some(Direction::In),
        protocols: vec![Protocol::Tcp; 100],
        hosts: vec![host; 100],
        ports: vec![80; 100],
    };
    let program = filter.program(SNAP);
    assert!(program.len() < 4096, "{}", program.len());
    for (at, instruction) in program.iter().enumerate() {
        let furthest = match instruction.code {
            RETURN => continue,
            JUMP => instruction.operand as usize,
            _ => usize::from(instruction.jump_true.max(instruction.jump_false)),
        };
        assert!(at + 1 + furthest < program.len(), "{at}: {instruction:?}");
    }
    // The last value is used like the first one.
    let ports: Vec<u16> = (1..=MAX_VALUES as u16).collect();
    let filter = Filter {
        ports,
        ..Filter::default()
    };
    let sample = |port| received(("10.0.0.1", "10.0.3.4"), Kind::Tcp(40000, port));
    let program = filter.program(SNAP);
    assert_eq!(sample(MAX_VALUES as u16).verdict(&program), SNAP);
    assert_eq!(sample(MAX_VALUES as u16 + 1).verdict(&program), 0);
}

#[test]
fn hosts_are_parsed() {
    for (text, address, prefix) in [
        ("10.1.2.3", IpAddr::from([10, 1, 2, 3]), 32),
        ("10.0.0.0/8", IpAddr::from([10, 0, 0, 0]), 8),
        ("::1", Ipv6Addr::LOCALHOST.into(), 128),
        ("fd00::/0", "fd00::".parse().unwrap(), 0),
    ] {
        assert_eq!(text.parse(), Ok(Host { address, prefix }));
    }
    for text in [
        "",
        "shop",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/",
        "10.0.0.0/-1",
        "/8",
    ] {
        assert_eq!(text.parse::<Host>(), Err(InvalidHost(text.to_owned())));
    }
}

#[test]
fn words_and_masks_of_a_host() {
    for (text, expected) in [
        ("10.1.2.3", &[(0x0a01_0203, u32::MAX)][..]),
        ("10.1.2.3/8", &[(0x0a00_0000, 0xff00_0000)]),
        ("10.1.2.3/1", &[(0, 0x8000_0000)]),
        ("10.1.2.3/0", &[]),
        (
            "fd00:1:2:3:4:5:6:7",
            &[
                (0xfd00_0001, u32::MAX),
                (0x0002_0003, u32::MAX),
                (0x0004_0005, u32::MAX),
                (0x0006_0007, u32::MAX),
            ],
        ),
        ("fd00:1:2:3::/32", &[(0xfd00_0001, u32::MAX)]),
        (
            "fd00:1:2:3::/48",
            &[(0xfd00_0001, u32::MAX), (0x0002_0000, 0xffff_0000)],
        ),
        ("fd00::/0", &[]),
    ] {
        let host: Host = text.parse().unwrap();
        assert_eq!(host.words(), expected, "{text}");
    }
}
