use proptest::{collection::vec, prelude::*};

use super::*;

const OUTPUT: Hook = Hook {
    point: Point::Output,
    ipv4: true,
    ipv6: true,
};

fn rule(branches: &[Branch]) -> Rule {
    Rule {
        expressions: 1,
        branches: branches.to_vec(),
    }
}

fn chain(hook: Option<Hook>, rules: &[&[Branch]]) -> Chain {
    Chain {
        hook,
        rules: rules.iter().map(|branches| rule(branches)).collect(),
    }
}

/// A chain of rules without a branch.
fn plain(rules: usize) -> Chain {
    Chain {
        hook: None,
        rules: vec![rule(&[]); rules],
    }
}

/// Chains that each jump `fan` times to the next one. The last chain has one rule.
fn tower(depth: usize, fan: usize) -> PacketFilter {
    let level = |index| Chain {
        hook: (index == 0).then_some(OUTPUT),
        rules: vec![rule(&[Branch::Jump(index + 1)]); fan],
    };
    PacketFilter {
        chains: (0..depth).map(level).chain([plain(1)]).collect(),
        maps: Vec::new(),
    }
}

#[test]
fn jumps_multiply() {
    // Each level evaluates its jumps and the chains behind them.
    assert_eq!(tower(1, 4).evaluations(), 8);
    assert_eq!(tower(2, 4).evaluations(), 36);
    assert_eq!(tower(13, 4).evaluations(), 156_587_348);
    assert_eq!(tower(14, 4).evaluations(), 626_349_396);
    assert_eq!(tower(15, 20_000).evaluations(), u64::MAX);
}

#[test]
fn goto_does_not_return() {
    for (first, expected) in [
        (&[][..], 3),
        (&[Branch::Jump(1)], 8),
        (&[Branch::Goto(1)], 6),
        (&[Branch::Goto(2)], 3),
        // A packet takes at most one of these branches.
        (&[Branch::Goto(1), Branch::Jump(2)], 6),
    ] {
        let filter = PacketFilter {
            chains: vec![chain(Some(OUTPUT), &[first, &[], &[]]), plain(5), plain(1)],
            maps: Vec::new(),
        };
        assert_eq!(filter.evaluations(), expected, "{first:?}");
    }
}

#[test]
fn a_map_costs_as_much_as_its_worst_branch() {
    let filter = |branches: &[Branch]| PacketFilter {
        chains: vec![
            chain(Some(OUTPUT), &[&[Branch::Map(0)], &[]]),
            plain(5),
            plain(1),
        ],
        maps: vec![VerdictMap {
            branches: branches.to_vec(),
        }],
    };
    let (short, long) = (Branch::Jump(2), Branch::Jump(1));
    for (branches, expected) in [
        (&[][..], 2),
        (&[short], 3),
        (&[short, long], 7),
        (&[short, Branch::Goto(1)], 6),
        (&[Branch::Map(0)], u64::MAX),
        (&[Branch::Jump(9)], u64::MAX),
    ] {
        assert_eq!(filter(branches).evaluations(), expected, "{branches:?}");
    }
}

#[test]
fn hooks_and_versions_of_ip() {
    let at = |point, ipv4, ipv6, rules| Chain {
        hook: Some(Hook { point, ipv4, ipv6 }),
        rules: vec![rule(&[]); rules],
    };
    let filter = PacketFilter {
        chains: vec![
            at(Point::Output, true, false, 10),
            at(Point::Output, false, true, 200),
            at(Point::Output, true, true, 3000),
            at(Point::Input, true, false, 40_000),
            // A packet on loopback is not forwarded.
            at(Point::Forward, true, true, 1),
            plain(5),
        ],
        maps: Vec::new(),
    };
    assert_eq!(filter.evaluations_at(Point::Output), 3200);
    assert_eq!(filter.evaluations_at(Point::Input), 40_000);
    assert_eq!(filter.evaluations_at(Point::Egress), 0);
    assert_eq!(filter.evaluations(), 43_010);
}

#[test]
fn what_the_kernel_does_not_have_is_unbounded() {
    let entry = |target| chain(Some(OUTPUT), &[&[Branch::Jump(target)]]);
    for chains in [
        vec![entry(0)],
        vec![entry(7)],
        vec![entry(1), chain(None, &[&[Branch::Goto(0)]])],
        tower(17, 1).chains,
    ] {
        let filter = PacketFilter {
            chains,
            maps: Vec::new(),
        };
        assert_eq!(filter.evaluations(), u64::MAX, "{filter:?}");
    }
    let no_map = PacketFilter {
        chains: vec![chain(Some(OUTPUT), &[&[Branch::Map(0)]])],
        maps: Vec::new(),
    };
    assert_eq!(no_map.evaluations(), u64::MAX);
    assert_eq!(tower(16, 1).evaluations(), 17);
}

/// Evaluates a packet as the kernel does, with decisions that `choices` makes.
fn evaluate(filter: &PacketFilter, index: Index, choices: &mut impl FnMut() -> usize) -> u64 {
    let mut cost = 0;
    for rule in &filter.chains[index].rules {
        cost += rule.expressions;
        let chosen = rule.branches.get(choices() % (rule.branches.len() + 1));
        let chosen = match chosen {
            Some(Branch::Map(map)) => {
                let branches = &filter.maps[*map].branches;
                branches.get(choices() % (branches.len() + 1))
            }
            other => other,
        };
        match chosen {
            Some(Branch::Jump(chain)) => cost += evaluate(filter, *chain, choices),
            Some(Branch::Goto(chain)) => return cost + evaluate(filter, *chain, choices),
            _ => {}
        }
    }
    cost
}

/// Chains that only refer to later ones, as the kernel accepts.
fn filters() -> impl Strategy<Value = PacketFilter> {
    let branch = |from: usize, last: usize| {
        (0..3_u8, from + 1..=last).prop_map(|(kind, to)| match kind {
            0 => Branch::Jump(to),
            1 => Branch::Goto(to),
            _ => Branch::Map(to),
        })
    };
    let rules = move |from| {
        let rule = (1..4_u64, vec(branch(from, 6), 0..3));
        let rule = rule.prop_map(|(expressions, branches)| Rule {
            expressions,
            branches,
        });
        vec(rule, 0..4)
    };
    let chains: Vec<_> = (0..6).map(rules).collect();
    chains.prop_map(|chains| {
        let mut chains: Vec<Chain> = chains
            .into_iter()
            .map(|rules| Chain { hook: None, rules })
            .collect();
        chains[0].hook = Some(OUTPUT);
        chains.push(plain(1));
        // The map of each index leads to the chains from that index on.
        let map = |from| VerdictMap {
            branches: (from..7)
                .map(|to| {
                    if to % 2 == 0 {
                        Branch::Jump(to)
                    } else {
                        Branch::Goto(to)
                    }
                })
                .collect(),
        };
        PacketFilter {
            chains,
            maps: (0..7).map(map).collect(),
        }
    })
}

proptest! {
    #[test]
    fn no_packet_costs_more(filter in filters(), choices in vec(any::<usize>(), 1..50)) {
        let mut choices = choices.iter().copied().cycle();
        let mut choose = || choices.next().unwrap();
        let cost = evaluate(&filter, 0, &mut choose);
        prop_assert!(cost <= filter.evaluations());
    }
}
