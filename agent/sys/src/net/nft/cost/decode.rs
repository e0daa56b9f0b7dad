//! Converts the kernel's messages to a [`PacketFilter`].

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use usher_core::node::packet_filter::{
    Branch, Chain, Hook, Index, PacketFilter, Point, Rule, VerdictMap,
};

use super::super::number::{
    CHAIN_NEW, ELEMENTS_NEW, FAMILY, HEADER, NAME_OF_TABLE, RULE_NEW, chain, element, rules,
    verdict,
};
use crate::net::netlink::{
    attribute::{attributes, find},
    message::Message,
};

const CHAINS: usize = 4096;
const RULES: usize = 20_000;
/// Maximum number of verdict maps that rules refer to.
const MAPS: usize = 4096;
/// Maximum number of elements in all verdict maps together, and of jumps in all rules together.
const ELEMENTS: usize = 20_000;
/// Maximum length of the names of chains and verdict maps, with those of their tables: each may have 255 bytes.
const NAMES: usize = 1024 * 1024;

const IPV4: u8 = 2;
const NETDEV: u8 = 5;
const IPV6: u8 = 10;

// Attributes of an expression.
const EXPRESSION: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const IMMEDIATE_DATA: u16 = 2;
const LOOKUP_SET: u16 = 1;
const LOOKUP_DESTINATION: u16 = 3;
const VERDICT_REGISTER: u32 = 0;

/// Expressions that take the time of one comparison or a few.
const CHEAP: [&str; 9] = [
    "bitwise",
    "byteorder",
    "cmp",
    "counter",
    "ct",
    "immediate",
    "meta",
    "payload",
    "range",
];
/// Cost of any other expression, which may search a set, run a module of iptables, or write a log.
const DEAR: u64 = 16;

/// From this many chains, rules and elements on a ruleset is large, or with names of this length.
const LARGE: usize = 4000;
const LARGE_NAMES: usize = 64 * 1024;
/// How many large rulesets are read at the same time, a few MB each.
const LARGE_AT_ONCE: usize = 4;

static LARGE_NOW: AtomicUsize = AtomicUsize::new(0);

/// Why a ruleset is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    /// It exceeds a limit.
    TooLarge,
    /// It is large, and so are others that are being read.
    Busy,
}

/// The name of a chain or map in its table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) name: String,
}

#[derive(Debug, Default)]
pub(super) struct Collector {
    filter: PacketFilter,
    chains: BTreeMap<Key, Index>,
    /// The kernel's count of each chain's rules, and of the verdicts that name it.
    uses: Vec<u64>,
    maps: BTreeMap<Key, Index>,
    rules: usize,
    elements: usize,
    names: usize,
    /// Counts this ruleset as a large one.
    large: Option<Large>,
}

/// Counts one large ruleset until it is dropped.
#[derive(Debug)]
struct Large;

impl Large {
    fn begin() -> Result<Self, Overflow> {
        let large = Self;
        match LARGE_NOW.fetch_add(1, Ordering::Relaxed) < LARGE_AT_ONCE {
            true => Ok(large),
            false => Err(Overflow::Busy),
        }
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        LARGE_NOW.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Collector {
    pub(super) fn filter(&self) -> &PacketFilter {
        &self.filter
    }

    /// Whether the kernel has more rules than it listed. It ends a list without an error before a rule that exceeds a
    /// message of 32 KiB ([`nf_tables_dump_rules`](https://github.com/torvalds/linux/blob/v6.12/net/netfilter/nf_tables_api.c)).
    /// Changes that are not complete count as well.
    pub(super) fn is_cut(&self) -> bool {
        let chains = self.filter.chains.iter();
        let mut listed: Vec<u64> = chains
            .clone()
            .map(|chain| chain.rules.len() as u64)
            .collect();
        let rules = chains.flat_map(|chain| &chain.rules);
        let of_rules = rules.flat_map(|rule| &rule.branches);
        let of_maps = self.filter.maps.iter().flat_map(|map| &map.branches);
        for branch in of_rules.chain(of_maps) {
            if let Branch::Jump(target) | Branch::Goto(target) = branch
                && let Some(listed) = listed.get_mut(*target)
            {
                *listed += 1;
            }
        }
        self.uses
            .iter()
            .zip(listed)
            .any(|(uses, listed)| *uses > listed)
    }

    /// The maps that rules refer to, in the order of their indices.
    pub(super) fn map_keys(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.maps.iter().collect();
        keys.sort_by_key(|(_key, index)| **index);
        keys.into_iter().map(|(key, _index)| key.clone()).collect()
    }

    /// Checks the limits after each addition.
    fn check(&mut self) -> Result<(), Overflow> {
        let chains = self.filter.chains.len();
        if chains > CHAINS
            || self.filter.maps.len() > MAPS
            || self.rules > RULES
            || self.elements > ELEMENTS
            || self.names > NAMES
        {
            return Err(Overflow::TooLarge);
        }
        let is_large = chains + self.rules + self.elements > LARGE || self.names > LARGE_NAMES;
        if self.large.is_none() && is_large {
            self.large = Some(Large::begin()?);
        }
        Ok(())
    }

    /// Adds a chain, or a rule of a chain that was already added.
    pub(super) fn take(&mut self, message: Message<'_>) -> Result<(), Overflow> {
        let (Some(family), Some(body)) = (message.body.first(), message.body.get(HEADER..)) else {
            return Ok(());
        };
        let text = |kind| find(body, kind).and_then(|text| text.text());
        let key = |name: &str| {
            Some(Key {
                family: *family,
                table: text(NAME_OF_TABLE)?.to_owned(),
                name: name.to_owned(),
            })
        };
        match message.kind {
            CHAIN_NEW => {
                let Some(key) = text(chain::NAME).and_then(key) else {
                    return Ok(());
                };
                self.names += key.len();
                self.chains.insert(key, self.filter.chains.len());
                let uses = find(body, chain::USE).and_then(|uses| uses.u32());
                self.uses.push(uses.unwrap_or_default().into());
                self.filter.chains.push(Chain {
                    hook: hook(*family, body),
                    rules: Vec::new(),
                });
                self.check()?;
            }
            RULE_NEW => {
                let Some(key) = text(rules::CHAIN).and_then(key) else {
                    return Ok(());
                };
                self.rules += 1;
                self.check()?;
                let expressions = find(body, rules::EXPRESSIONS).map_or(&[][..], |all| all.value);
                let rule = self.rule(&key, expressions)?;
                let chain = self.chains.get(&key);
                if let Some(chain) = chain.and_then(|index| self.filter.chains.get_mut(*index)) {
                    chain.rules.push(rule);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Converts a rule of this chain.
    fn rule(&mut self, chain: &Key, expressions: &[u8]) -> Result<Rule, Overflow> {
        let mut rule = Rule::default();
        for expression in attributes(expressions).filter(|part| part.kind == EXPRESSION) {
            let name = find(expression.value, EXPRESSION_NAME).and_then(|name| name.text());
            let name = name.unwrap_or_default();
            let cost = if CHEAP.contains(&name) { 1 } else { DEAR };
            rule.expressions += cost;
            let data = find(expression.value, EXPRESSION_DATA).map_or(&[][..], |data| data.value);
            let branch = match name {
                "immediate" => {
                    find(data, IMMEDIATE_DATA).and_then(|data| self.branch(chain, data.value))
                }
                "lookup" => self.verdict_map(chain, data)?,
                _ => None,
            };
            self.elements += usize::from(branch.is_some());
            self.check()?;
            rule.branches.extend(branch);
        }
        // A rule without expressions costs as much as one expression.
        rule.expressions = rule.expressions.max(1);
        Ok(rule)
    }

    /// The jump or goto in a verdict, if there is one. An unknown chain gets an index that no chain has.
    fn branch(&self, near: &Key, data: &[u8]) -> Option<Branch> {
        let data = find(data, verdict::DATA)?.value;
        let code = find(data, verdict::CODE)?.u32()?.cast_signed();
        let target = || {
            let name = find(data, verdict::CHAIN).and_then(|name| name.text());
            let key = name.map(|name| near.sibling(name));
            key.and_then(|key| self.chains.get(&key).copied())
                .unwrap_or(Index::MAX)
        };
        match code {
            verdict::JUMP => Some(Branch::Jump(target())),
            verdict::GOTO => Some(Branch::Goto(target())),
            _ => None,
        }
    }

    fn verdict_map(&mut self, near: &Key, data: &[u8]) -> Result<Option<Branch>, Overflow> {
        let register = find(data, LOOKUP_DESTINATION).and_then(|register| register.u32());
        let name = find(data, LOOKUP_SET).and_then(|name| name.text());
        let Some(name) = name.filter(|_| register == Some(VERDICT_REGISTER)) else {
            return Ok(None);
        };
        let key = near.sibling(name);
        let next = self.filter.maps.len();
        let length = key.len();
        let index = *self.maps.entry(key).or_insert(next);
        if index == next {
            self.names += length;
            self.filter.maps.push(VerdictMap::default());
            self.check()?;
        }
        Ok(Some(Branch::Map(index)))
    }

    /// Adds elements of the verdict map with this index and key.
    pub(super) fn take_elements(
        &mut self,
        index: Index,
        map: &Key,
        message: Message<'_>,
    ) -> Result<(), Overflow> {
        let all = message
            .body
            .get(HEADER..)
            .filter(|_| message.kind == ELEMENTS_NEW)
            .and_then(|body| find(body, element::ALL))
            .map_or(&[][..], |all| all.value);
        for one in attributes(all).filter(|part| part.kind == element::ONE) {
            self.elements += 1;
            self.check()?;
            let data = find(one.value, element::DATA).map_or(&[][..], |data| data.value);
            let branch = self.branch(map, data);
            if let Some(map) = self.filter.maps.get_mut(index) {
                map.branches.extend(branch);
            }
        }
        Ok(())
    }
}

impl Key {
    const fn len(&self) -> usize {
        self.table.len() + self.name.len()
    }

    /// The key of another object in the same table.
    fn sibling(&self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self.clone()
        }
    }
}

/// The hook of a base chain; None for other chains, and for families without IP packets on loopback. The chain of a
/// network device counts for any device.
fn hook(family: u8, body: &[u8]) -> Option<Hook> {
    let hook = find(body, chain::HOOK)?;
    let number = find(hook.value, chain::HOOK_NUMBER)?.u32()?;
    let (ipv4, ipv6) = match family {
        FAMILY | NETDEV => (true, true),
        IPV4 => (true, false),
        IPV6 => (false, true),
        _ => return None,
    };
    let point = match (family, number) {
        (NETDEV, 0) | (_, 5) => Point::Ingress,
        (NETDEV, _) => Point::Egress,
        (_, 0) => Point::Prerouting,
        (_, 1) => Point::Input,
        (_, 2) => Point::Forward,
        (_, 3) => Point::Output,
        _ => Point::Postrouting,
    };
    Some(Hook { point, ipv4, ipv6 })
}

#[cfg(test)]
mod tests;
