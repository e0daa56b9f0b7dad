//! Plans the rules of a table.

use std::{collections::BTreeMap, iter, time::Duration};

use super::{
    COPY, COPY_PRIORITY, COPYING, Chain, Element, Entry, Family, GROUP, HELD, HOLD, HOLD_PRIORITY,
    HeldPort, Key, Match, Rule, Ruleset, SOCKET_PRIORITY, Set, Then, Transport, Wanted,
};

impl Ruleset {
    /// Ports are sorted and unique, each with its longest timeout, so that the order of the input does not matter.
    pub fn of(wanted: &Wanted) -> Self {
        let held_ports = held_ports(&wanted.ports);
        let longest = held_ports.values().max().copied();
        let held = Set {
            name: HELD.to_owned(),
            key: Key::Service,
            elements: held_ports
                .into_iter()
                .map(|(value, time)| Element {
                    value,
                    timeout: Some(time),
                })
                .collect(),
        };
        let copying = Set {
            name: COPYING.to_owned(),
            key: Key::Protocol,
            elements: longest
                .map(|time| Element {
                    value: Transport::Tcp.number().into(),
                    timeout: Some(time),
                })
                .into_iter()
                .collect(),
        };
        if wanted.count_only {
            return Self {
                sets: vec![held],
                chains: vec![hold(wanted)],
            };
        }
        Self {
            sets: vec![copying, held],
            chains: vec![copy(wanted), hold(wanted)],
        }
    }
}

/// Each port once, with its longest time in whole milliseconds, as the kernel counts.
fn held_ports(ports: &[HeldPort]) -> BTreeMap<u16, Duration> {
    let mut held_ports = BTreeMap::new();
    for held_port in ports
        .iter()
        .filter(|held_port| !held_port.timeout.is_zero())
    {
        let up = held_port.timeout + Duration::from_nanos(999_999);
        let ms = u64::try_from(up.as_millis()).unwrap_or(u64::MAX);
        let longest = held_ports.entry(held_port.port).or_default();
        *longest = Duration::from_millis(ms).max(*longest);
    }
    held_ports
}

fn copy(wanted: &Wanted) -> Chain {
    let mut rules = exemptions(wanted);
    rules.push(Rule {
        matches: vec![Match::ProtocolIn(COPYING.to_owned()), Match::Opens],
        then: vec![Then::Copy(GROUP)],
    });
    Chain {
        name: COPY.to_owned(),
        entry: Entry::Output {
            priority: COPY_PRIORITY,
        },
        rules,
    }
}

fn hold(wanted: &Wanted) -> Chain {
    let mut rules = exemptions(wanted);
    let connections = if wanted.count_only {
        vec![Then::Count, Then::Copy(GROUP)]
    } else {
        vec![Then::Count, Then::Drop]
    };
    for family in [Family::V4, Family::V6] {
        let mut matches = at_the_held_port(family, Transport::Tcp);
        matches.push(Match::Opens);
        rules.push(Rule {
            matches,
            then: connections.clone(),
        });
    }
    if let Some(queue) = wanted.dns {
        let queries = if wanted.count_only {
            connections
        } else {
            vec![Then::Queue(GROUP, queue)]
        };
        for family in [Family::V4, Family::V6] {
            rules.push(Rule {
                matches: at_the_held_port(family, Transport::Udp),
                then: queries.clone(),
            });
        }
    }
    Chain {
        name: HOLD.to_owned(),
        entry: Entry::Output {
            priority: HOLD_PRIORITY,
        },
        rules,
    }
}

fn at_the_held_port(family: Family, transport: Transport) -> Vec<Match> {
    vec![
        Match::Loopback(family),
        Match::PortIn(transport, HELD.to_owned()),
    ]
}

/// "Accept" ends a chain but not the path of the packet, so both chains have these rules.
fn exemptions(wanted: &Wanted) -> Vec<Rule> {
    let sorted = |ids: &[u32]| {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let own = Match::Priority(SOCKET_PRIORITY);
    let users = sorted(&wanted.exempt_uids).into_iter().map(Match::User);
    let groups = sorted(&wanted.exempt_gids).into_iter().map(Match::Group);
    iter::once(own)
        .chain(users)
        .chain(groups)
        .map(|socket| Rule {
            matches: vec![socket],
            then: vec![Then::Accept],
        })
        .collect()
}
