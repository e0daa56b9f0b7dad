//! The newest copy of each held connection of one sandbox.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    iter,
};

use super::{Connection, Syn};
use crate::base::time::Timestamp;

/// Limit of the copies of a pod.
pub const MOST_COPIES: usize = 4096;

/// Memory of the two map entries of a copy. A node of a `BTreeMap` has room for 11 entries, and at least 5 of them are in
/// use; the rest is for the links between nodes.
const ENTRIES: usize = 5 * (size_of::<(u64, Held)>() + size_of::<(Connection, u64)>()) / 2;
/// An allocator rounds a packet up to a multiple of this, and uses as much again to manage it.
const ALLOCATION: usize = 16;

/// A copy and when it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub syn: Syn,
    /// When it arrived, or later: [`Syn::prepared_for_injection`] must not be given too long an age.
    pub arrived: Timestamp,
    /// When the first copy of the same connection arrived.
    pub since: Timestamp,
}

impl Held {
    /// Memory of the copy and its entries, an upper bound.
    fn bytes(&self) -> usize {
        ENTRIES + self.syn.len().next_multiple_of(ALLOCATION) + ALLOCATION
    }
}

/// The newest copy of each connection, [`MOST_COPIES`] at most.
///
/// The key is the whole connection: two sockets may share a source port.
#[derive(Debug, Default)]
pub struct Copies {
    /// By the number of their arrival, oldest first.
    held: BTreeMap<u64, Held>,
    /// The number of each connection's newest copy.
    numbers: BTreeMap<Connection, u64>,
    next: u64,
    bytes: usize,
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
        self.bytes -= older.as_ref().map_or(0, Held::bytes);
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
        self.bytes += held.bytes();
        self.held.insert(number, held);
        if self.held.len() > MOST_COPIES {
            self.drop_oldest();
        }
    }

    /// Drops the oldest copy and counts it. Returns whether there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let oldest = self.take_oldest();
        self.dropped += u64::from(oldest.is_some());
        oldest.is_some()
    }

    /// All copies, oldest first, for a release of some ports: each connection that is still held produces another
    /// copy.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Takes up to `most` copies, oldest first. The counters stay as they are.
    pub fn take(&mut self, most: usize) -> Vec<Held> {
        iter::from_fn(|| self.take_oldest()).take(most).collect()
    }

    fn take_oldest(&mut self) -> Option<Held> {
        let (_number, oldest) = self.held.pop_first()?;
        self.numbers.remove(&oldest.syn.connection());
        self.bytes -= oldest.bytes();
        Some(oldest)
    }

    /// Puts back a copy that was taken and not sent, with the time since which its connection waits. A newer copy of
    /// the same connection that replaces it keeps that time.
    pub fn put_back(&mut self, held: Held) {
        let connection = held.syn.connection();
        if self.len() < MOST_COPIES && !self.numbers.contains_key(&connection) {
            self.bytes += held.bytes();
            self.numbers.insert(connection, self.next);
            self.held.insert(self.next, held);
            self.next += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Memory of the copies and their entries, an upper bound.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of connections since the start. A connection whose copy was taken or dropped counts again with its
    /// next copy.
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// How many copies were dropped for lack of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
