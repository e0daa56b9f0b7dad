use proptest::prelude::*;

use super::super::ruleset::*;

const TIMEOUT: Duration = Duration::from_secs(30);

fn held_port(port: u16) -> HeldPort {
    HeldPort {
        port,
        timeout: TIMEOUT,
    }
}

/// Istio's own ports and user.
fn mesh() -> Wanted {
    Wanted {
        ports: vec![held_port(15001)],
        exempt_uids: vec![1337],
        ..Wanted::default()
    }
}

fn with_dns(queue: Queue) -> Wanted {
    Wanted {
        ports: vec![held_port(15001), held_port(15053)],
        dns: Some(queue),
        exempt_gids: vec![1337],
        ..mesh()
    }
}

fn assert_text(wanted: &Wanted, shown: &str) {
    let text = Ruleset::of(wanted).to_string();
    assert_eq!(text, shown, "\n{text}");
}

#[test]
fn mesh_only() {
    assert_text(&mesh(), include_str!("tests/mesh.nft"));
}

#[test]
fn mesh_with_groups() {
    let wanted = Wanted {
        exempt_gids: vec![1337, 101, 1337],
        ..mesh()
    };
    assert_text(&wanted, include_str!("tests/mesh-groups.nft"));
}

#[test]
fn localhost_only() {
    let wanted = Wanted {
        ports: vec![held_port(3306)],
        ..Wanted::default()
    };
    assert_text(&wanted, include_str!("tests/localhost.nft"));
}

#[test]
fn mesh_and_localhost() {
    let sooner = HeldPort {
        port: 5432,
        timeout: Duration::from_micros(12_345_600),
    };
    let wanted = Wanted {
        ports: vec![held_port(15001), sooner],
        ..mesh()
    };
    assert_text(&wanted, include_str!("tests/mesh-localhost.nft"));
}

#[test]
fn dns() {
    assert_text(
        &with_dns(Queue::Native),
        include_str!("tests/dns-native.nft"),
    );
    assert_text(
        &with_dns(Queue::Compat),
        include_str!("tests/dns-compat.nft"),
    );
}

#[test]
fn count_only() {
    let wanted = Wanted {
        count_only: true,
        ..with_dns(Queue::Native)
    };
    assert_text(&wanted, include_str!("tests/count-only.nft"));
}

#[test]
fn held_port_without_time_is_ignored() {
    let closed = HeldPort {
        port: 80,
        timeout: Duration::ZERO,
    };
    let wanted = Wanted {
        ports: vec![closed],
        ..Wanted::default()
    };
    let ruleset = Ruleset::of(&wanted);
    assert!(ruleset.sets.iter().all(|set| set.elements.is_empty()));
}

#[test]
fn differences() {
    let rules = |chain: &Chain| {
        let piece = |rule: &Rule| Piece::Rule(chain.name.clone(), rule.clone());
        chain.rules.iter().map(piece).collect::<Vec<_>>()
    };
    let wanted = Ruleset::of(&mesh());
    let element = |value, timeout| Element {
        value,
        timeout: Some(timeout),
    };
    let held = |element| Piece::Element(HELD.to_owned(), element);

    // A set whose element has expired, and an element with another timeout.
    let mut found = wanted.clone();
    found.sets[0].elements.clear();
    found.sets[1].elements = vec![element(15001, TIMEOUT / 2)];
    let difference = diff(&found, &wanted);
    let copying = Piece::Element(COPYING.to_owned(), element(6, TIMEOUT));
    assert_eq!(difference.missing, [copying, held(element(15001, TIMEOUT))]);
    assert_eq!(difference.surplus, [held(element(15001, TIMEOUT / 2))]);

    // The kernel's rounding is not a difference.
    found = wanted.clone();
    found.sets[1].elements = vec![element(15001, TIMEOUT + Duration::from_millis(4))];
    assert!(diff(&found, &wanted).is_empty());

    // The order of rules matters. A missing rule is the only difference.
    found = wanted.clone();
    found.chains[1].rules.swap(0, 1);
    let difference = diff(&found, &wanted);
    assert_eq!(difference.missing, rules(&wanted.chains[1])[..2]);
    assert_eq!(difference.surplus.len(), 2);
    found = wanted.clone();
    let gone = found.chains[0].rules.remove(0);
    let difference = diff(&found, &wanted);
    assert_eq!(difference.missing, [Piece::Rule(COPY.to_owned(), gone)]);
    assert!(difference.surplus.is_empty());

    // A chain at another hook is another chain.
    found = wanted.clone();
    found.chains[1].entry = Entry::Other("type filter hook input priority 0".to_owned());
    let difference = diff(&found, &wanted);
    let entry = wanted.chains[1].entry.clone();
    assert_eq!(difference.missing[0], Piece::Chain(HOLD.to_owned(), entry));
    assert_eq!(difference.missing[1..], rules(&wanted.chains[1]));
    assert_eq!(difference.surplus.len(), difference.missing.len());

    // A set with another key is another set, even with the same numbers as elements.
    found = wanted.clone();
    found.sets[1].key = Key::Protocol;
    let difference = diff(&found, &wanted);
    let shown: Vec<String> = difference.missing.iter().map(Piece::to_string).collect();
    let set = found.sets[1].name.clone();
    let expected = [
        format!("set {set} of inet_service"),
        format!("15001 in set {set}"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(difference.surplus.len(), difference.missing.len());

    // No table at all, and a foreign table.
    let difference = diff(&Ruleset::default(), &wanted);
    assert!(difference.surplus.is_empty() && !difference.missing.is_empty());
    let difference = diff(&wanted, &Ruleset::default());
    assert!(difference.missing.is_empty() && !difference.surplus.is_empty());
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let held_port = (0..5_u16, 0..4_000_000_u64).prop_map(|(port, micros)| HeldPort {
        port,
        timeout: Duration::from_micros(micros),
    });
    let queue = prop_oneof![
        Just(None),
        Just(Some(Queue::Native)),
        Just(Some(Queue::Compat))
    ];
    let ids = || proptest::collection::vec(0..4_u32, 0..4);
    let ports = proptest::collection::vec(held_port, 0..6);
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
    fn order_of_the_ports_does_not_change_the_table(wanted in wanted()) {
        let mut turned = wanted.clone();
        turned.ports.reverse();
        turned.exempt_uids.reverse();
        turned.exempt_gids.reverse();
        let (one, other) = (Ruleset::of(&wanted), Ruleset::of(&turned));
        prop_assert_eq!(&one, &other);
        prop_assert!(diff(&one, &other).is_empty());
    }

    #[test]
    fn every_hold_has_a_deadline(wanted in wanted()) {
        let longest = wanted.ports.iter().map(|held_port| held_port.timeout).max();
        for element in Ruleset::of(&wanted).sets.iter().flat_map(|set| &set.elements) {
            let timeout = element.timeout.unwrap();
            prop_assert!(!timeout.is_zero());
            prop_assert!(timeout < longest.unwrap() + Duration::from_millis(1));
        }
    }

    #[test]
    fn a_difference_is_seen_from_both_sides(one in wanted(), other in wanted()) {
        let (one, other) = (Ruleset::of(&one), Ruleset::of(&other));
        let (there, back) = (diff(&one, &other), diff(&other, &one));
        prop_assert_eq!(there.missing, back.surplus);
        prop_assert_eq!(there.surplus, back.missing);
    }
}

#[test]
fn drift_is_all_but_the_times_that_run() {
    let wanted = |timeout| {
        Ruleset::of(&Wanted {
            ports: vec![HeldPort {
                port: 15001,
                timeout,
            }],
            exempt_uids: vec![1337],
            ..Wanted::default()
        })
    };
    let long = wanted(Duration::from_secs(30));
    let short = wanted(Duration::from_secs(3));
    assert!(drift(&short, &long).is_empty());
    assert!(!diff(&short, &long).is_empty());
    let mut for_ever = short.clone();
    for_ever.sets[1].elements[0].timeout = None;
    assert_eq!(drift(&for_ever, &long).surplus.len(), 1);
    let mut opened = short.clone();
    opened.sets[1].elements.clear();
    assert_eq!(drift(&opened, &long).missing.len(), 1);
    let mut foreign = short;
    foreign.chains[0].rules.clear();
    assert!(!drift(&foreign, &long).is_empty());
    assert!(!drift(&Ruleset::default(), &long).is_empty());
    assert!(!drift(&long, &Ruleset::default()).is_empty());
}

#[test]
fn pieces_are_printed_in_nft_syntax() {
    let ruleset = Ruleset::of(&mesh());
    let missing = diff(&Ruleset::default(), &ruleset).missing;
    let shown: Vec<String> = missing.iter().map(Piece::to_string).collect();
    for piece in [
        "set held of inet_service",
        "15001 in set held",
        "chain copy: type filter hook output priority raw; policy accept;",
        "rule in chain hold: meta skuid 1337 accept",
    ] {
        assert!(shown.iter().any(|shown| shown == piece), "{shown:#?}");
    }
}

#[test]
fn durations_are_printed_in_nft_syntax() {
    for (millis, shown) in [
        (0, "0s"),
        (500, "500ms"),
        (59_999, "59s999ms"),
        (60_000, "1m"),
        (90_500, "1m30s500ms"),
        (600_000, "10m"),
        (3_599_000, "59m59s"),
        (3_600_000, "1h"),
        (86_399_000, "23h59m59s"),
        (93_784_005, "1d2h3m4s5ms"),
    ] {
        let set = Set {
            name: HELD.to_owned(),
            key: Key::Service,
            elements: vec![Element {
                value: 15001,
                timeout: Some(Duration::from_millis(millis)),
            }],
        };
        let expected = format!("\t\telements = {{ 15001 timeout {shown} }}\n");
        assert!(set.to_string().contains(&expected), "{set}");
    }
}
