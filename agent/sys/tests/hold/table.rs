//! The planned table, the program nft's list of it, and the table that is read back.

use std::{process::Command, time::Duration};

use usher_core::hold::ruleset::{HELD, HeldPort, Queue, Ruleset, TABLE, Wanted, diff};
use usher_sys::net::{
    netlink::Protocol,
    nft::{
        ChainKind, ForeignChain, Hook, HookPoint, delete_elements, delete_table, dump,
        foreign_tables, generation, install, probe, renew,
    },
};

use crate::{
    held::count_held,
    scratch::{inside, nft, skipped},
};

const MINUTE: Duration = Duration::from_secs(60);

fn held_port(port: u16) -> HeldPort {
    HeldPort {
        port,
        timeout: MINUTE,
    }
}

/// Every kind of table.
fn every() -> Vec<Wanted> {
    let mut all = Vec::new();
    for ports in [
        vec![],
        vec![held_port(3306)],
        vec![held_port(15001), held_port(5432), held_port(15053)],
    ] {
        for ids in [vec![], vec![1337], vec![0, u32::MAX - 1]] {
            for dns in [None, Some(Queue::Native), Some(Queue::Compat)] {
                for count_only in [false, true] {
                    all.push(Wanted {
                        ports: ports.clone(),
                        dns,
                        exempt_uids: ids.clone(),
                        exempt_gids: ids.clone(),
                        count_only,
                    });
                }
            }
        }
    }
    all
}

fn has_nft() -> bool {
    let is_there = Command::new("nft").arg("--version").output().is_ok();
    if !is_there {
        skipped("needs the program nft");
    }
    is_there
}

/// The output of the program nft, without remaining times; None without the program.
fn listed() -> Option<String> {
    if !has_nft() {
        return None;
    }
    let mut list = Command::new("nft");
    let listed = list
        .args(["list", "table", "inet", TABLE])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let mut text = String::new();
    let mut words = std::str::from_utf8(&listed.stdout).unwrap();
    while let Some((before, after)) = words.split_once(" expires ") {
        text.push_str(before);
        let end = after.find([' ', ',']).unwrap();
        words = &after[end..];
    }
    text.push_str(words);
    // nft wraps long lists of elements.
    Some(text.replace(",\n\t\t\t     ", ", "))
}

#[test]
fn every_table_is_as_planned() {
    inside(|netns| async move {
        let features = probe().unwrap();
        let socket = netns.netlink(Protocol::Netfilter).unwrap();
        for wanted in every() {
            let usable = wanted.count_only
                || match wanted.dns {
                    Some(Queue::Native) => features.native_queue.is_ok(),
                    Some(Queue::Compat) => features.compat_queue.is_ok(),
                    None => true,
                };
            let ruleset = Ruleset::of(&wanted);
            if !usable {
                install(&socket, &ruleset).unwrap_err();
                continue;
            }
            // Replaces the previous table.
            install(&socket, &ruleset).unwrap();
            let found = dump(&socket).unwrap().unwrap();
            let difference = diff(&found.ruleset, &ruleset);
            assert!(difference.is_empty(), "{wanted:?}: {difference:?}");
            let elements = ruleset.sets.iter().flat_map(|set| &set.elements);
            assert_eq!(found.remaining.len(), elements.count());
            assert!(
                found
                    .remaining
                    .iter()
                    .all(|remaining| remaining.time <= MINUTE)
            );
            assert_eq!(found.packets, 0);
            let Some(listed) = listed() else {
                continue;
            };
            assert_eq!(listed, ruleset.to_string(), "{wanted:?}");
        }
    });
}

#[test]
fn kernel_has_the_features_of_a_hold() {
    inside(|_| async {
        let features = probe().unwrap();
        features.table.as_ref().unwrap();
        features.log.as_ref().unwrap();
        assert!(features.sock_diag.as_ref().unwrap());
        let queue = features.queue().unwrap();
        assert_eq!(queue == Queue::Native, features.native_queue.is_ok());
    });
}

#[test]
fn deleting_absent_objects_succeeds() {
    inside(|netns| async move {
        let socket = netns.netlink(Protocol::Netfilter).unwrap();
        assert_eq!(dump(&socket).unwrap(), None);
        assert_eq!(count_held(&socket), 0);
        assert!(!delete_table(&socket).unwrap());
        assert!(!delete_elements(&socket, &[15001]).unwrap());
        let error = renew(&socket, &[held_port(15001)]).unwrap_err();
        assert!(error.is_not_there(), "{error:?}");
        assert_eq!(error.object, "element");

        let wanted = Wanted {
            ports: vec![held_port(15001), held_port(5432)],
            ..Wanted::default()
        };
        install(&socket, &Ruleset::of(&wanted)).unwrap();
        assert!(!delete_elements(&socket, &[1, 15001, 15001]).unwrap());
        let held = |found: &usher_sys::net::nft::Found| -> Vec<u16> {
            let held = found
                .remaining
                .iter()
                .filter(|remaining| remaining.set == HELD);
            held.map(|remaining| remaining.value).collect()
        };
        assert_eq!(held(&dump(&socket).unwrap().unwrap()), [5432]);
        assert!(delete_table(&socket).unwrap());
        assert!(!delete_table(&socket).unwrap());
        assert_eq!(dump(&socket).unwrap(), None);
    });
}

/// The worker relies on it: with another number, the pod has changed its rules as well.
#[test]
fn each_released_port_is_one_generation() {
    inside(|netns| async move {
        let socket = netns.netlink(Protocol::Netfilter).unwrap();
        let wanted = Wanted {
            ports: vec![held_port(15001), held_port(15006), held_port(5432)],
            ..Wanted::default()
        };
        install(&socket, &Ruleset::of(&wanted)).unwrap();
        let before = generation(&socket).unwrap();
        assert!(delete_elements(&socket, &[15001, 15006]).unwrap());
        assert_eq!(generation(&socket).unwrap(), before + 2);
        assert!(!delete_elements(&socket, &[15001]).unwrap());
        assert_eq!(generation(&socket).unwrap(), before + 2);
    });
}

#[test]
fn timeouts_are_renewed() {
    inside(|netns| async move {
        let socket = netns.netlink(Protocol::Netfilter).unwrap();
        // Two ports, and the copies of a table that holds.
        for (count_only, elements) in [(false, 3), (true, 2)] {
            let wanted = Wanted {
                ports: vec![held_port(15001)],
                count_only,
                ..Wanted::default()
            };
            install(&socket, &Ruleset::of(&wanted)).unwrap();
            // One port already exists, the other is new.
            let later = [15001, 5432].map(|port| HeldPort {
                port,
                timeout: 10 * MINUTE,
            });
            renew(&socket, &later).unwrap();
            let found = dump(&socket).unwrap().unwrap();
            assert_eq!(found.remaining.len(), elements);
            assert!(
                found
                    .remaining
                    .iter()
                    .all(|remaining| remaining.time > 9 * MINUTE),
                "{found:?}"
            );
            let renewed = Wanted {
                ports: later.to_vec(),
                count_only,
                ..Wanted::default()
            };
            let difference = diff(&found.ruleset, &Ruleset::of(&renewed));
            assert!(difference.is_empty(), "{difference:?}");
        }
        delete_table(&socket).unwrap();
        let missing = renew(&socket, &[held_port(15001)]).unwrap_err();
        assert!(missing.is_not_there(), "{missing:?}");
    });
}

/// A table that nft creates from the same text is read as equal.
#[test]
fn table_of_the_program_nft_is_read() {
    if !has_nft() {
        return;
    }
    inside(|netns| async move {
        let socket = netns.netlink(Protocol::Netfilter).unwrap();
        for wanted in every() {
            if wanted.dns.is_some() && !wanted.count_only {
                continue;
            }
            let ruleset = Ruleset::of(&wanted);
            nft(&ruleset.to_string());
            let found = dump(&socket).unwrap().unwrap();
            let difference = diff(&found.ruleset, &ruleset);
            assert!(difference.is_empty(), "{wanted:?}: {difference:?}");
            assert!(delete_table(&socket).unwrap());
        }
    });
}

/// A table of the same name with foreign content is listed unchanged, and replaced.
#[test]
fn table_of_another_program_is_read_and_replaced() {
    const FOREIGN: &str = "table inet usher {
        map verdicts { type inet_service : verdict; elements = { 80 : drop } }
        set addresses { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.1 } }
        set held { type inet_proto . inet_service; elements = { tcp . 80 } }
        set copying { type inet_proto; elements = { tcp } }
        counter every { }
        chain other { tcp dport != 80 meta skuid 5-7 drop
            counter name every
            tcp dport { 1, 2, 3 } log group 9643 snaplen 64
            meta skuid 5 log group 9643 queue-threshold 2
        }
        chain plain { ip saddr @addresses counter return
            tcp dport vmap @verdicts
            meta l4proto . th dport @held log prefix \"x\" level warn
            ct state new,established meta mark set 0x1 jump other
        }
        chain hold { type filter hook input priority 5; policy drop
            jump plain
        }
        chain copy { type nat hook output priority -100
            tcp dport 80 redirect to :90
        }
    }";
    if !has_nft() {
        return;
    }
    inside(|netns| async move {
        let socket = netns.netlink(Protocol::Netfilter).unwrap();
        nft(FOREIGN);
        let found = dump(&socket).unwrap().unwrap();
        assert_eq!(found.ruleset.chains.len(), 4);
        let wanted = Ruleset::of(&Wanted {
            ports: vec![held_port(15001)],
            ..Wanted::default()
        });
        let difference = diff(&found.ruleset, &wanted);
        assert_eq!(
            difference.missing,
            diff(&Ruleset::default(), &wanted).missing
        );
        // The foreign chain has a text form.
        assert!(found.ruleset.to_string().contains("type nat hook 3"));
        install(&socket, &wanted).unwrap();
        let found = dump(&socket).unwrap().unwrap();
        assert!(diff(&found.ruleset, &wanted).is_empty());
    });
}

#[test]
fn foreign_chains_and_rules_are_counted() {
    if !has_nft() {
        return;
    }
    inside(|netns| async move {
        let socket = netns.netlink(Protocol::Netfilter).unwrap();
        assert_eq!(foreign_tables(&socket).unwrap().chains, []);
        let wanted = Wanted {
            ports: vec![held_port(15001)],
            ..Wanted::default()
        };
        install(&socket, &Ruleset::of(&wanted)).unwrap();
        nft("table ip nat {
                chain MESH {
                    tcp dport 80 counter
                    tcp dport 81 counter
                }
                chain OUTPUT {
                    type nat hook output priority -100; policy accept;
                    ip protocol tcp jump MESH
                }
            }");
        let found = foreign_tables(&socket).unwrap();
        let chain = |chain: &str, hook: Option<Hook>, rules| ForeignChain {
            family: "ip",
            table: "nat".to_owned(),
            chain: chain.to_owned(),
            hook,
            rules,
        };
        let output = Hook {
            kind: ChainKind::Nat,
            point: HookPoint::Output,
            priority: -100,
        };
        let expected = [chain("MESH", None, 2), chain("OUTPUT", Some(output), 1)];
        assert_eq!(found.chains, expected);
        assert_eq!(found.omitted, 0);
    });
}
