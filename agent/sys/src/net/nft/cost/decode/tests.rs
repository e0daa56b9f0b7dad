use super::*;
use crate::net::netlink::{
    attribute::{nest, put_text, put_u32},
    message::{messages, put},
};

fn chain_message(name: &str, hook: Option<u32>) -> Vec<u8> {
    used_chain(name, hook, 0)
}

fn used_chain(name: &str, hook: Option<u32>, uses: u32) -> Vec<u8> {
    object(CHAIN_NEW, |body| {
        put_text(body, chain::NAME, name);
        put_u32(body, chain::USE, uses);
        if let Some(number) = hook {
            nest(body, chain::HOOK, |hook| {
                put_u32(hook, chain::HOOK_NUMBER, number);
            });
        }
    })
}

fn object(kind: u16, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, kind, 0, 1, |body| {
        body.extend_from_slice(&[FAMILY, 0, 0, 0]);
        put_text(body, NAME_OF_TABLE, "filter");
        fill(body);
    });
    bytes
}

fn put_verdict(out: &mut Vec<u8>, kind: u16, code: i32, target: &str) {
    nest(out, kind, |out| {
        nest(out, verdict::DATA, |out| {
            put_u32(out, verdict::CODE, code.cast_unsigned());
            put_text(out, verdict::CHAIN, target);
        });
    });
}

/// A comparison, and a jump, or a lookup in a verdict map.
fn rule_message(chain: &str, target: &str, map: Option<&str>) -> Vec<u8> {
    object(RULE_NEW, |body| {
        put_text(body, rules::CHAIN, chain);
        nest(body, rules::EXPRESSIONS, |all| {
            nest(all, EXPRESSION, |one| put_text(one, EXPRESSION_NAME, "cmp"));
            nest(all, EXPRESSION, |one| match map {
                Some(map) => {
                    put_text(one, EXPRESSION_NAME, "lookup");
                    nest(one, EXPRESSION_DATA, |data| {
                        put_text(data, LOOKUP_SET, map);
                        put_u32(data, LOOKUP_DESTINATION, VERDICT_REGISTER);
                    });
                }
                None => {
                    put_text(one, EXPRESSION_NAME, "immediate");
                    nest(one, EXPRESSION_DATA, |data| {
                        put_verdict(data, IMMEDIATE_DATA, verdict::JUMP, target);
                    });
                }
            });
        });
    })
}

fn elements_message(targets: &[&str]) -> Vec<u8> {
    object(ELEMENTS_NEW, |body| {
        nest(body, element::ALL, |all| {
            for target in targets {
                nest(all, element::ONE, |one| {
                    put_verdict(one, element::DATA, verdict::GOTO, target);
                });
            }
        });
    })
}

fn taken(bytes: &[Vec<u8>]) -> Collector {
    let mut found = Collector::default();
    for message in bytes.iter().flat_map(|bytes| messages(bytes)) {
        found.take(message).unwrap();
    }
    found
}

#[test]
fn chains_rules_and_maps() {
    let mut found = taken(&[
        chain_message("output", Some(3)),
        chain_message("one", None),
        chain_message("two", None),
        rule_message("output", "two", None),
        rule_message("output", "", Some("map")),
        rule_message("one", "absent", None),
    ]);
    let keys = found.map_keys();
    assert_eq!(keys.len(), 1);
    let elements = elements_message(&["one", "two"]);
    for message in messages(&elements) {
        found.take_elements(0, &keys[0], message).unwrap();
    }
    let rule = |expressions, branch| Rule {
        expressions,
        branches: vec![branch],
    };
    let output = Hook {
        point: Point::Output,
        ipv4: true,
        ipv6: true,
    };
    let chain = |hook, rules| Chain { hook, rules };
    let expected = PacketFilter {
        chains: vec![
            chain(
                Some(output),
                vec![rule(2, Branch::Jump(2)), rule(1 + DEAR, Branch::Map(0))],
            ),
            chain(None, vec![rule(2, Branch::Jump(Index::MAX))]),
            chain(None, Vec::new()),
        ],
        maps: vec![VerdictMap {
            branches: vec![Branch::Goto(1), Branch::Goto(2)],
        }],
    };
    assert_eq!(*found.filter(), expected);
}

#[test]
fn lists_are_bounded() {
    let rule = rule_message("output", "output", None);
    let mut found = taken(&vec![rule.clone(); RULES]);
    let more = messages(&rule).next().unwrap();
    assert_eq!(found.take(more), Err(Overflow::TooLarge));
    let chain = chain_message("output", None);
    drop(found);
    let mut found = taken(&vec![chain.clone(); CHAINS]);
    let more = messages(&chain).next().unwrap();
    assert_eq!(found.take(more), Err(Overflow::TooLarge));
    let mut found = Collector::default();
    let elements = elements_message(&["output"]);
    let map = Key {
        family: FAMILY,
        table: "filter".to_owned(),
        name: "map".to_owned(),
    };
    let one = messages(&elements).next().unwrap();
    for number in 0..=ELEMENTS {
        let taken = found.take_elements(0, &map, one);
        assert_eq!(taken.is_ok(), number < ELEMENTS);
    }
}

#[test]
fn names_and_jumps_are_bounded() {
    let long = chain_message(&"x".repeat(255), None);
    let mut found = Collector::default();
    let mut fits = 0;
    while found.take(messages(&long).next().unwrap()).is_ok() {
        fits += 1;
        assert_eq!(found.large.is_some(), found.names > LARGE_NAMES, "{fits}");
    }
    assert!((3000..CHAINS).contains(&fits), "{fits}");
    let jump = rule_message("output", "output", None);
    let mut found = Collector {
        elements: ELEMENTS - 1,
        ..Collector::default()
    };
    let taken = [(); 2].map(|()| found.take(messages(&jump).next().unwrap()));
    assert_eq!(taken, [Ok(()), Err(Overflow::TooLarge)]);
}

#[test]
fn truncated_messages_are_accepted() {
    for whole in [
        chain_message("output", Some(3)),
        rule_message("output", "one", None),
        rule_message("output", "", Some("map")),
    ] {
        for message in messages(&whole) {
            for end in 0..=message.body.len() {
                let body = &message.body[..end];
                Collector::default()
                    .take(Message { body, ..message })
                    .unwrap();
            }
        }
    }
}

#[test]
fn hooks_by_family() {
    let body = |number| {
        let message = chain_message("c", Some(number));
        messages(&message).next().unwrap().body[HEADER..].to_vec()
    };
    for (family, number, expected) in [
        (FAMILY, 3, Some((Point::Output, true, true))),
        (FAMILY, 5, Some((Point::Ingress, true, true))),
        (IPV4, 0, Some((Point::Prerouting, true, false))),
        (IPV6, 1, Some((Point::Input, false, true))),
        (IPV4, 2, Some((Point::Forward, true, false))),
        (IPV4, 4, Some((Point::Postrouting, true, false))),
        (NETDEV, 0, Some((Point::Ingress, true, true))),
        (NETDEV, 1, Some((Point::Egress, true, true))),
        (3, 0, None),
        (7, 3, None),
    ] {
        let found = hook(family, &body(number));
        let found = found.map(|hook| (hook.point, hook.ipv4, hook.ipv6));
        assert_eq!(found, expected, "{family} {number}");
    }
}

#[test]
fn rules_that_the_kernel_did_not_list_are_noticed() {
    for (of_base, of_leaf, is_cut) in [(2, 2, false), (3, 2, true), (2, 3, true)] {
        let mut found = taken(&[
            used_chain("base", Some(chain::OUTPUT), of_base),
            used_chain("leaf", None, of_leaf),
            rule_message("base", "leaf", None),
            rule_message("base", "", Some("ports")),
        ]);
        let [map] = &found.map_keys()[..] else {
            panic!("one map");
        };
        let elements = elements_message(&["leaf"]);
        for message in messages(&elements) {
            found.take_elements(0, map, message).unwrap();
        }
        assert_eq!(found.is_cut(), is_cut, "{of_base} {of_leaf}");
    }
}
