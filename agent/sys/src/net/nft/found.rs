//! Decodes the kernel's messages about a table.

use std::time::Duration;

use usher_core::hold::ruleset::{Chain, Element, Entry, HOLD, Key, Ruleset, Set, TABLE};

use super::{
    expression::{self, Expression},
    number::{
        CHAIN_NEW, ELEMENTS_NEW, HEADER, NAME, NAME_OF_TABLE, RULE_NEW, SET_NEW, chain, element,
        rules, set,
    },
    rule,
};
use crate::net::netlink::{
    attribute::{attributes, find},
    message::{self, Message},
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The table. Expressions that usher never creates are included by name.
    pub ruleset: Ruleset,
    pub remaining: Vec<RemainingTime>,
    /// Packets that the rules of the chain [`HOLD`] have counted.
    pub packets: u64,
    /// Number of chains, rules, expressions, sets and elements so far, which limits the memory.
    pub(super) things: usize,
}

/// Remaining time of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainingTime {
    pub set: String,
    pub value: u16,
    pub time: Duration,
}

/// Decodes the messages of a table: chains before their rules, sets before their elements. Messages of other tables,
/// truncated messages and unknown kinds are skipped.
pub fn decode(answer: &[u8]) -> Found {
    let mut found = Found::default();
    for message in message::messages(answer) {
        found.take(message);
    }
    found.sort();
    found
}

impl Found {
    /// Adds the object of a message.
    pub(super) fn take(&mut self, message: Message<'_>) {
        let Some(body) = message.body.get(HEADER..) else {
            return;
        };
        if find(body, NAME_OF_TABLE).and_then(|name| name.text()) != Some(TABLE) {
            return;
        }
        self.things += 1;
        // A message without a required attribute is skipped.
        let _nothing = match message.kind {
            CHAIN_NEW => self.take_chain(body),
            RULE_NEW => self.take_rule(body),
            SET_NEW => self.take_set(body),
            ELEMENTS_NEW => self.take_elements(body),
            _ => None,
        };
    }

    fn take_chain(&mut self, body: &[u8]) -> Option<()> {
        self.ruleset.chains.push(Chain {
            name: find(body, chain::NAME)?.text()?.to_owned(),
            entry: entry(body),
            rules: Vec::new(),
        });
        Some(())
    }

    fn take_rule(&mut self, body: &[u8]) -> Option<()> {
        let name = find(body, rules::CHAIN)?.text()?;
        let list = find(body, rules::EXPRESSIONS).map_or(&[][..], |list| list.value);
        let expressions: Vec<Expression> = attributes(list)
            .filter(|part| part.kind == expression::ELEMENT)
            .filter_map(|part| Expression::read(part.value))
            .collect();
        self.things += expressions.len();
        let (rule, packets) = rule::rule(&expressions);
        if name == HOLD {
            self.packets = self.packets.saturating_add(packets);
        }
        let chains = &mut self.ruleset.chains;
        chains
            .iter_mut()
            .find(|chain| chain.name == name)?
            .rules
            .push(rule);
        Some(())
    }

    fn take_set(&mut self, body: &[u8]) -> Option<()> {
        let kind = find(body, set::KEY_TYPE).and_then(|kind| kind.u32());
        let length = find(body, set::KEY_LENGTH).and_then(|length| length.u32());
        let flags = find(body, set::FLAGS).and_then(|flags| flags.u32());
        let key = match (kind, length, flags) {
            (Some(set::PROTOCOL), Some(1), Some(set::HAS_TIMEOUTS)) => Key::Protocol,
            (Some(set::SERVICE), Some(2), Some(set::HAS_TIMEOUTS)) => Key::Service,
            (kind, ..) => Key::Other(kind.unwrap_or_default()),
        };
        self.ruleset.sets.push(Set {
            name: find(body, NAME)?.text()?.to_owned(),
            key,
            elements: Vec::new(),
        });
        Some(())
    }

    fn take_elements(&mut self, body: &[u8]) -> Option<()> {
        let name = find(body, NAME)?.text()?;
        let sets = &mut self.ruleset.sets;
        let set = sets.iter_mut().find(|set| set.name == name)?;
        for part in attributes(find(body, element::ALL)?.value) {
            let Some(value) = value(part.value) else {
                continue;
            };
            let time = |kind| {
                let ms = find(part.value, kind)?.u64()?;
                (ms > 0).then(|| Duration::from_millis(ms))
            };
            let timeout = time(element::TIMEOUT);
            self.things += 1;
            set.elements.push(Element { value, timeout });
            if let Some(time) = time(element::LEFT) {
                let set = name.to_owned();
                self.remaining.push(RemainingTime { set, value, time });
            }
        }
        Some(())
    }

    /// The kernel lists elements in the order of a hash table.
    pub(super) fn sort(&mut self) {
        self.ruleset
            .sets
            .sort_by(|one, other| one.name.cmp(&other.name));
        for set in &mut self.ruleset.sets {
            set.elements.sort_unstable();
        }
        self.remaining
            .sort_by(|one, other| (&one.set, one.value).cmp(&(&other.set, other.value)));
    }
}

/// A key of one or two bytes.
fn value(part: &[u8]) -> Option<u16> {
    let key = find(find(part, element::KEY)?.value, element::VALUE)?.value;
    match key {
        [byte] => Some(u16::from(*byte)),
        [high, low] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

fn entry(body: &[u8]) -> Entry {
    let Some(hook) = find(body, chain::HOOK) else {
        return Entry::Other("no hook".to_owned());
    };
    let in_hook = |kind| find(hook.value, kind).and_then(|number| number.u32());
    let number = in_hook(chain::HOOK_NUMBER).unwrap_or_default();
    let priority = in_hook(chain::PRIORITY).unwrap_or_default().cast_signed();
    let kind = find(body, chain::TYPE)
        .and_then(|kind| kind.text())
        .unwrap_or_default();
    let policy = find(body, chain::POLICY)
        .and_then(|policy| policy.u32())
        .unwrap_or_default();
    if (kind, number, policy) == (chain::FILTER, chain::OUTPUT, chain::ACCEPT) {
        return Entry::Output { priority };
    }
    Entry::Other(format!(
        "type {kind} hook {number} priority {priority}; policy {policy};"
    ))
}
