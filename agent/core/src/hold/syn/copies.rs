//! The newest copy of each connection that waits.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    mem,
};

use super::{Connection, Syn};
use crate::base::time::Timestamp;

/// How many connections of a pod are remembered.
pub const MOST_COPIES: usize = 4096;

/// A copy and when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub syn: Syn,
    /// When it came, or later: [`Syn::prepared_for_injection`] must not be given too long an age.
    pub arrived: Timestamp,
    /// When the first copy of the same connection came.
    pub since: Timestamp,
}

/// The newest copy of each connection, [`MOST_COPIES`] at most.
///
/// The key is the whole connection: two sockets may share a source port.
#[derive(Debug, Default)]
pub struct Copies {
    /// By the number of their arrival, oldest first.
    held: BTreeMap<u64, Held>,
    /// The number of each connection's newest.
    numbers: BTreeMap<Connection, u64>,
    next: u64,
    connections: u64,
    dropped: u64,
}

impl Copies {
    /// Keeps a copy, in place of an older one of the same connection.
    pub fn keep(&mut self, syn: Syn, arrived: Timestamp) {
        let number = self.next;
        self.next += 1;
        let older = match self.numbers.entry(syn.connection()) {
            Entry::Occupied(mut entry) => self.held.remove(&entry.insert(number)),
            Entry::Vacant(entry) => {
                entry.insert(number);
                None
            }
        };
        // With another sequence number it is another connection between the same ends.
        let same = older.filter(|older| older.syn.sequence() == syn.sequence());
        if same.is_none() {
            self.connections += 1;
        }
        let since = same.map_or(arrived, |older| older.since);
        let held = Held {
            syn,
            arrived,
            since,
        };
        self.held.insert(number, held);
        if self.held.len() > MOST_COPIES
            && let Some((_, oldest)) = self.held.pop_first()
        {
            self.numbers.remove(&oldest.syn.connection());
            self.dropped += 1;
        }
    }

    /// All copies, oldest first, for a release of some ports: what is held yet comes back as a copy of the same
    /// connection.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Takes all copies out, oldest first. What was counted stays counted.
    pub fn take(&mut self) -> impl ExactSizeIterator<Item = Held> + use<> {
        self.numbers.clear();
        mem::take(&mut self.held).into_values()
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many connections were seen since the start; one that was taken or dropped and comes again counts again.
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// How many copies were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
