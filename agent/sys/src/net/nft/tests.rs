use proptest::prelude::*;
use usher_core::hold::ruleset::{
    Chain, Element, Entry, Key, Match, Queue, Rule, Set, Then, Wanted,
};

use super::super::nft::*;
use crate::net::netlink::{attribute, message};

const HELD_PORT: HeldPort = HeldPort {
    port: 15001,
    timeout: Duration::from_secs(30),
};

fn wanted() -> impl Strategy<Value = Wanted> {
    let held_port = (any::<u16>(), 1..100_000_u64).prop_map(|(port, ms)| HeldPort {
        port,
        timeout: Duration::from_millis(ms),
    });
    let queue = prop_oneof![
        Just(None),
        Just(Some(Queue::Native)),
        Just(Some(Queue::Compat))
    ];
    let ids = || proptest::collection::vec(any::<u32>(), 0..3);
    let ports = proptest::collection::vec(held_port, 0..20);
    (ports, queue, ids(), ids(), any::<bool>()).prop_map(
        |(ports, dns, exempt_uids, exempt_gids, count_only)| Wanted {
            ports,
            dns,
            exempt_uids,
            exempt_gids,
            count_only,
        },
    )
}

proptest! {
    #[test]
    fn encoded_ruleset_is_decoded(wanted in wanted()) {
        let ruleset = Ruleset::of(&wanted);
        prop_assert_eq!(decode(&encode(&ruleset)).ruleset, ruleset);
    }

    #[test]
    fn decoder_accepts_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _found = decode(&bytes);
    }

    /// Valid messages with a few changed bytes cover more of the decoder than random bytes.
    #[test]
    fn decoder_accepts_damaged_messages(
        wanted in wanted(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&Ruleset::of(&wanted));
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let _found = decode(&bytes);
        let end = end.index(bytes.len());
        let _found = decode(&bytes[..end]);
    }
}

/// The kernel accepted these bytes, so review every change of them.
#[test]
fn encoded_bytes_are_unchanged() {
    let batch = encode(&Ruleset::of(&Wanted {
        ports: vec![HELD_PORT],
        dns: Some(Queue::Compat),
        exempt_uids: vec![1337],
        exempt_gids: vec![1337],
        count_only: false,
    }));
    let mut text = String::new();
    for message in message::messages(&batch) {
        let flags = message.flags;
        text.push_str(&format!("{} {flags:#x} {}", message.kind, message.sequence));
        for (index, byte) in message.body.iter().enumerate() {
            text.push_str(if index % 32 == 0 { "\n  " } else { "" });
            text.push_str(&format!("{byte:02x}"));
        }
        text.push('\n');
    }
    assert_eq!(text, include_str!("tests/batch.hex"), "\n{text}");
}

/// A table of the same name from another program.
#[test]
fn foreign_objects_are_decoded_as_other() {
    let foreign = Ruleset {
        sets: vec![Set {
            name: "addresses".to_owned(),
            key: Key::Other(7),
            elements: vec![Element {
                value: 7,
                timeout: None,
            }],
        }],
        chains: vec![Chain {
            name: "all".to_owned(),
            entry: Entry::Other("no hook".to_owned()),
            rules: vec![Rule {
                matches: vec![Match::User(1), Match::Other("ct".to_owned())],
                then: vec![Then::Count, Then::Other("masq".to_owned())],
            }],
        }],
    };
    assert_eq!(decode(&encode(&foreign)).ruleset, foreign);
}

#[test]
fn other_tables_are_skipped() {
    let mut bytes = encode(&Ruleset::of(&Wanted::default()));
    while let Some(at) = bytes.windows(5).position(|window| window == b"usher") {
        bytes[at] = b'r';
    }
    assert_eq!(decode(&bytes), Found::default());
}

#[test]
fn remaining_times_and_packet_counts_are_decoded() {
    let ruleset = Ruleset::of(&Wanted {
        ports: vec![HELD_PORT],
        ..Wanted::default()
    });
    let mut bytes = encode(&ruleset);
    batch::request(&mut bytes, number::ELEMENTS_NEW, 0, 0, |out| {
        attribute::put_text(out, number::NAME, HELD);
        attribute::nest(out, number::element::ALL, |list| {
            attribute::nest(list, number::element::ONE, |one| {
                attribute::nest(one, number::element::KEY, |key| {
                    attribute::put_u16(key, number::element::VALUE, 80);
                });
                attribute::put_u64(one, number::element::LEFT, 1500);
            });
        });
    });
    batch::request(&mut bytes, number::RULE_NEW, 0, 0, |out| {
        attribute::put_text(out, number::rules::CHAIN, "hold");
        attribute::nest(out, number::rules::EXPRESSIONS, |list| {
            expression::Expression::Counter(3).put(list);
        });
    });
    let remaining = RemainingTime {
        set: HELD.to_owned(),
        value: 80,
        time: Duration::from_millis(1500),
    };
    let found = decode(&bytes);
    assert_eq!(found.remaining, [remaining]);
    assert_eq!(found.packets, 3);
}

#[test]
fn error_names_operation_object_and_detail() {
    let error = NftError {
        operation: Operation::Install,
        object: "rule",
        detail: Some("no such expression".to_owned()),
        source: Errno::ENOENT.into(),
    };
    assert_eq!(
        error.to_string(),
        "installing the hold: rule (no such expression)"
    );
    assert!(error.is_not_there());
    assert_eq!(error.kind(), "nft-install");
}
