//! Counts connections, each once.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::Connection;

const MOST_REMEMBERED: usize = 4096;

/// A number of connections. It remembers a hash of each, an eighth of the memory, so that a connection that is counted
/// again makes no difference. Beyond 4,096 a connection counts each time.
#[derive(Debug, Default)]
pub struct ConnectionCount {
    remembered: BTreeSet<u64>,
    beyond: usize,
}

impl ConnectionCount {
    pub fn add(&mut self, connection: &Connection) {
        let hash = hash(connection);
        if self.remembered.len() < MOST_REMEMBERED {
            self.remembered.insert(hash);
        } else if !self.remembered.contains(&hash) {
            self.beyond += 1;
        }
    }

    pub fn total(&self) -> usize {
        self.remembered.len() + self.beyond
    }

    /// The number of connections that `others` does not have, as far as both remember them.
    pub fn without(&self, others: &Self) -> usize {
        self.remembered.difference(&others.remembered).count() + self.beyond
    }
}

fn hash(connection: &Connection) -> u64 {
    let mut hasher = DefaultHasher::new();
    connection.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(ports: impl IntoIterator<Item = u16>) -> ConnectionCount {
        let mut count = ConnectionCount::default();
        for port in ports {
            count.add(&Connection {
                source: ([127, 0, 0, 1], port).into(),
                destination: ([127, 0, 0, 1], 80).into(),
            });
        }
        count
    }

    #[test]
    fn each_connection_counts_once() {
        let one = count([1, 2, 3, 2]);
        let other = count([2, 4]);
        assert_eq!((one.total(), other.total()), (3, 2));
        assert_eq!((one.without(&other), other.without(&one)), (2, 1));
    }

    #[test]
    fn beyond_the_limit_all_are_counted_and_none_is_remembered() {
        let many = count(1..=5000);
        assert_eq!((many.total(), many.remembered.len()), (5000, 4096));
        assert_eq!(many.without(&count([1])), 4999);
        assert_eq!(count((1..=5000).chain([1, 5000])).total(), 5001);
    }
}
