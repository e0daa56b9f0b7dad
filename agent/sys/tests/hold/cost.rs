//! The cost of rules for a packet. No packet reaches the costly rules, because the first rule of the chain accepts it.

use std::{
    fmt::Write,
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use usher_sys::net::{
    iptables,
    netlink::{Protocol, Socket},
    netns::Netns,
    nft::{Cost, cost, generation},
};

use crate::scratch::{inside, nft, skipped};

/// The rules of istio-init for both families, as input of iptables' restore programs.
const ISTIO: &str = "*nat
:ISTIO_INBOUND - [0:0]
:ISTIO_REDIRECT - [0:0]
:ISTIO_IN_REDIRECT - [0:0]
:ISTIO_OUTPUT - [0:0]
-A PREROUTING -p tcp -j ISTIO_INBOUND
-A OUTPUT -j ISTIO_OUTPUT
-A ISTIO_INBOUND -p tcp --dport 15008 -j RETURN
-A ISTIO_INBOUND -p tcp --dport 15090 -j RETURN
-A ISTIO_INBOUND -p tcp --dport 15021 -j RETURN
-A ISTIO_INBOUND -p tcp --dport 15020 -j RETURN
-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT
-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001
-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006
-A ISTIO_OUTPUT -o lo -p tcp ! --dport 15008 -m owner --uid-owner 1337 -j ISTIO_IN_REDIRECT
-A ISTIO_OUTPUT -o lo -m owner ! --uid-owner 1337 -j RETURN
-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN
-A ISTIO_OUTPUT -o lo -p tcp ! --dport 15008 -m owner --gid-owner 1337 -j ISTIO_IN_REDIRECT
-A ISTIO_OUTPUT -o lo -m owner ! --gid-owner 1337 -j RETURN
-A ISTIO_OUTPUT -m owner --gid-owner 1337 -j RETURN
-A ISTIO_OUTPUT -j ISTIO_REDIRECT
COMMIT
";

/// Passes rules to a restore program of iptables; false if the program does not exist.
fn restore(program: &str, rules: &str) -> bool {
    let started = Command::new(program).stdin(Stdio::piped()).spawn();
    let Ok(mut restore) = started else {
        skipped(&format!("needs the program {program}"));
        return false;
    };
    let mut input = restore.stdin.take().unwrap();
    input.write_all(rules.as_bytes()).unwrap();
    drop(input);
    assert!(restore.wait().unwrap().success(), "{program}");
    true
}

/// Creates chains that each jump `fan` times to the next chain.
fn tower(depth: usize, fan: usize) -> String {
    let mut rules = String::from("table inet costly {\n");
    for level in (0..=depth).rev() {
        let jumps = format!("jump c{}\n", level + 1).repeat(fan);
        let rules_of = match level {
            0 => format!("type filter hook output priority 0\naccept\n{jumps}"),
            level if level == depth => String::from("counter\n"),
            _ => jumps,
        };
        writeln!(rules, "chain c{level} {{\n{rules_of}}}").unwrap();
    }
    rules + "}\n"
}

fn socket(netns: &Netns) -> Socket {
    netns.netlink(Protocol::Netfilter).unwrap()
}

fn evaluations(netns: &Netns) -> u64 {
    cost(&socket(netns)).unwrap().evaluations
}

#[test]
fn nested_chains_multiply() {
    for (depth, at_least) in [(13, 4_u64.pow(13)), (14, 4_u64.pow(14))] {
        inside(move |netns| async move {
            nft(&tower(depth, 4));
            let found = evaluations(&netns);
            assert!((at_least..3 * at_least).contains(&found), "{found}");
        });
    }
}

#[test]
fn rules_of_a_mesh_are_cheap() {
    inside(|netns| async move {
        assert_eq!(evaluations(&netns), 0);
        for program in ["iptables-nft-restore", "ip6tables-nft-restore"] {
            if !restore(program, ISTIO) {
                return;
            }
            let found = evaluations(&netns);
            assert!((20..500).contains(&found), "{found}");
        }
    });
}

#[test]
fn legacy_rules_of_a_mesh_are_cheap() {
    inside(|netns| async move {
        assert_eq!(iptables::evaluations(&netns).unwrap(), 0);
        for program in ["iptables-legacy-restore", "ip6tables-legacy-restore"] {
            if !restore(program, ISTIO) {
                return;
            }
            let found = iptables::evaluations(&netns).unwrap();
            assert!((20..1000).contains(&found), "{found}");
        }
        assert_eq!(evaluations(&netns), 0, "nftables lists none of them");
        let tables = fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap();
        assert_eq!(tables, "nat\n", "reading creates no table");
    });
}

#[test]
fn nested_legacy_chains_multiply() {
    inside(|netns| async move {
        let mut rules = String::from("*filter\n");
        for level in 1..=13 {
            writeln!(rules, ":c{level} - [0:0]").unwrap();
        }
        rules += "-A OUTPUT -j ACCEPT\n-A OUTPUT -j c1\n";
        for level in 1..13 {
            rules += &format!("-A c{level} -j c{}\n", level + 1).repeat(4);
        }
        rules += "-A c13 -m mark --mark 1\nCOMMIT\n";
        if restore("iptables-legacy-restore", &rules) {
            let found = iptables::evaluations(&netns).unwrap();
            let leaves = 4_u64.pow(12);
            assert!((leaves..100 * leaves).contains(&found), "{found}");
        }
    });
}

#[test]
fn too_many_rules_are_not_read() {
    inside(|netns| async move {
        let rules = "meta mark 1 counter\n".repeat(30_000);
        nft(&format!("table inet many {{ chain many {{\n{rules}}}\n}}"));
        assert_eq!(evaluations(&netns), u64::MAX);
    });
}

#[test]
fn verdict_maps_lead_to_their_worst_chain() {
    inside(|netns| async move {
        let long = "meta mark 1 counter\n".repeat(1000);
        nft(&format!(
            "table ip maps {{
                map ports {{ type inet_service : verdict; elements = {{ 80 : jump long, 81 : goto short }} }}
                chain long {{\n{long}}}
                chain unused {{\n{long}}}
                chain short {{ counter; }}
                chain output {{
                    type filter hook output priority 0
                    tcp dport vmap @ports
                    ct state vmap {{ established : accept, invalid : drop }}
                    udp dport vmap {{ 53 : jump short, 54 : goto long }}
                }}
            }}"
        ));
        // Each rule of the long chain has three expressions. The goto of the second map does not return.
        let found = evaluations(&netns);
        assert!((6000..6200).contains(&found), "{found}");
    });
}

#[test]
fn generation_changes_with_the_rules() {
    inside(|netns| async move {
        let socket = socket(&netns);
        let before = generation(&socket).unwrap();
        let read = cost(&socket).unwrap();
        assert_eq!(
            (read.generation, generation(&socket).unwrap()),
            (before, before)
        );
        nft("table inet one { chain output { type filter hook output priority 0; counter; }; }");
        assert_ne!(generation(&socket).unwrap(), before);
        let Cost {
            generation: number,
            evaluations,
        } = cost(&socket).unwrap();
        assert_eq!((number, evaluations), (generation(&socket).unwrap(), 1));
    });
}

/// Chains of a network device count as well, but not those of a bridge.
#[test]
fn other_families() {
    inside(|netns| async move {
        nft(
            "table netdev lo { chain in { type filter hook ingress device lo priority 0; counter; counter; }; }",
        );
        assert_eq!(evaluations(&netns), 2);
        nft("table arp one { chain in { type filter hook input priority 0; counter; }; }");
        assert_eq!(evaluations(&netns), 2);
    });
}

#[test]
fn thread_returns_from_the_namespace_of_its_socket() {
    inside(async |netns| {
        let elsewhere = Netns::scratch().unwrap();
        let there = elsewhere.netlink_here(Protocol::Netfilter).unwrap();
        let now = fs::File::open("/proc/thread-self/ns/net").unwrap();
        assert_eq!(Netns::from_fd(now.into()).unwrap().id(), netns.id());
        // Only the rules here change.
        let before = generation(&there).unwrap();
        nft("add table inet elsewhere");
        assert_eq!(generation(&there).unwrap(), before);
        let here = netns.netlink_here(Protocol::Netfilter).unwrap();
        assert_ne!(generation(&here).unwrap(), before);
    });
}
