//! The differences between existing and wanted tables.

use std::{fmt, time::Duration};

use super::{Element, Entry, Key, Rule, Ruleset};

/// Timeouts that differ by less are equal: the kernel keeps them in ticks of at most 10 ms.
const TICK: Duration = Duration::from_millis(10);

/// The changes that a table needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    pub missing: Vec<Piece>,
    pub surplus: Vec<Piece>,
}

impl Diff {
    /// Whether the tables are equal.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A set, regardless of its elements.
    Set(String, Key),
    /// An element of the set of this name.
    Element(String, Element),
    /// A chain, regardless of its rules.
    Chain(String, Entry),
    /// A rule of the chain of this name.
    Rule(String, Rule),
}

impl fmt::Display for Piece {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(name, key) => write!(out, "set {name} of {key}"),
            Self::Element(set, element) => write!(out, "{} in set {set}", element.value),
            Self::Chain(name, entry) => write!(out, "chain {name}: {entry}"),
            Self::Rule(chain, rule) => write!(out, "rule in chain {chain}: {rule}"),
        }
    }
}

/// Compares tables. The order of rules matters, that of sets, elements and chains does not. An element with another
/// timeout than the wanted one is both missing and surplus.
pub fn diff(found: &Ruleset, wanted: &Ruleset) -> Diff {
    Diff {
        missing: beyond(wanted, found),
        surplus: beyond(found, wanted),
    }
}

/// Compares a table of the kernel with the wanted one. The timeouts of elements may differ, because the kernel has
/// those that it received last; an element without a timeout is another element.
pub fn drift(found: &Ruleset, wanted: &Ruleset) -> Diff {
    let mut wanted = wanted.clone();
    for set in &mut wanted.sets {
        let Some(there) = found.sets.iter().find(|there| there.name == set.name) else {
            continue;
        };
        for element in &mut set.elements {
            let same = there
                .elements
                .iter()
                .find(|same| same.value == element.value);
            let timeout = same.and_then(|same| same.timeout);
            element.timeout = timeout.or(element.timeout);
        }
    }
    diff(found, &wanted)
}

fn beyond(one: &Ruleset, other: &Ruleset) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for set in &one.sets {
        let same = |candidate: &&super::Set| candidate.name == set.name && candidate.key == set.key;
        let elements = match other.sets.iter().find(same) {
            Some(there) => there.elements.as_slice(),
            None => {
                pieces.push(Piece::Set(set.name.clone(), set.key));
                &[]
            }
        };
        let new = set
            .elements
            .iter()
            .filter(|element| !elements.iter().any(|there| is_same(there, element)));
        pieces.extend(new.map(|element| Piece::Element(set.name.clone(), *element)));
    }
    for chain in &one.chains {
        let same = |candidate: &&super::Chain| {
            candidate.name == chain.name && candidate.entry == chain.entry
        };
        let rules = match other.chains.iter().find(same) {
            Some(there) => there.rules.as_slice(),
            None => {
                pieces.push(Piece::Chain(chain.name.clone(), chain.entry.clone()));
                &[]
            }
        };
        let new = between(&chain.rules, rules);
        pieces.extend(
            new.iter()
                .map(|rule| Piece::Rule(chain.name.clone(), rule.clone())),
        );
    }
    pieces
}

fn is_same(one: &Element, other: &Element) -> bool {
    let timeouts = match (one.timeout, other.timeout) {
        (Some(one), Some(other)) => one.abs_diff(other) <= TICK,
        (one, other) => one == other,
    };
    one.value == other.value && timeouts
}

/// The rules of `one` without the first and last rules that `other` has as well. If the order differs, the result is
/// not empty for both.
fn between<'a>(one: &'a [Rule], other: &[Rule]) -> &'a [Rule] {
    let equal = |(one, other): &(&Rule, &Rule)| one == other;
    let first = one.iter().zip(other).take_while(equal).count();
    let (one, other) = (&one[first..], &other[first..]);
    let last = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(equal)
        .count();
    &one[..one.len() - last]
}
