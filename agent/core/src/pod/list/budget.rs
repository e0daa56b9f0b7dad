//! A bounded set of what is kept of a list: when it is full, the largest entries are removed.
//!
//! The kubelet lists its pods in no order. Which pods are kept depends on their sizes and UIDs alone, so two lists of the same pods
//! keep the same ones, and a pod of ordinary size stays whatever the other pods are like.

use std::{collections::BTreeMap, mem::size_of};

use crate::{
    base::id::PodUid,
    pod::spec::{Container, Pod},
};

#[derive(Debug)]
pub(super) struct Budget<T> {
    entries: BTreeMap<Rank, T>,
    bytes: usize,
    largest_bytes: usize,
    largest_count: usize,
}

/// The order in which entries are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Entries of finished pods are removed before others.
    pub(super) finished: bool,
    pub(super) bytes: usize,
    pub(super) uid: PodUid,
}

impl<T> Budget<T> {
    pub(super) const fn new(largest_bytes: usize, largest_count: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            bytes: 0,
            largest_bytes,
            largest_count,
        }
    }

    /// Adds an entry. Returns the entries that had to be removed for it, which may include itself.
    pub(super) fn insert(&mut self, rank: Rank, entry: T) -> Vec<(Rank, T)> {
        let mut removed = Vec::new();
        let bytes = rank.bytes;
        if self.entries.insert(rank, entry).is_none() {
            self.bytes += bytes;
        }
        while self.bytes > self.largest_bytes || self.entries.len() > self.largest_count {
            let Some((rank, entry)) = self.entries.pop_last() else {
                break;
            };
            self.bytes -= rank.bytes;
            removed.push((rank, entry));
        }
        removed
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = (Rank, T)> {
        self.entries.into_iter()
    }
}

/// What the runs of an init container occupy later. It also limits their number: some decisions take a time that grows
/// with its square.
const INIT_CONTAINER: usize = 512;

/// The bytes that a pod occupies, without the overhead of the allocator.
pub(super) fn size_of_pod(pod: &Pod) -> usize {
    let containers = pod.containers.iter().chain(&pod.init_restarters);
    let names = pod.native_sidecars.iter().chain(&pod.init_containers);
    size_of::<Pod>()
        + pod.uid.as_str().len()
        + pod.namespace.len()
        + pod.name.len()
        + pod.runtime_class.as_ref().map_or(0, String::len)
        + pod.terminal.as_ref().map_or(0, String::len)
        + size_of_map(&pod.annotations)
        + names.map(|name| INIT_CONTAINER + name.len()).sum::<usize>()
        + containers.map(size_of_container).sum::<usize>()
}

fn size_of_container(container: &Container) -> usize {
    let rules = container.restart_rules.iter();
    let rules = rules.map(|rule| size_of_val(rule) + size_of_val(&rule.codes[..]));
    size_of::<Container>()
        + container.name.len()
        + container.image.len()
        + container.image_id.as_ref().map_or(0, String::len)
        + container.words.iter().map(|text| size_of_text(text)).sum::<usize>()
        + size_of_map(&container.env)
        + rules.sum::<usize>()
        + size_of_val(&container.probes[..])
        // Two ids of 64 characters.
        + container.status.as_ref().map_or(0, |_status| 128)
}

fn size_of_map(map: &BTreeMap<String, String>) -> usize {
    let entries = map.iter();
    entries
        .map(|(key, value)| size_of_text(key) + size_of_text(value))
        .sum()
}

fn size_of_text(text: &str) -> usize {
    size_of::<String>() + text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::spec::plain;

    fn rank(bytes: usize, number: usize) -> Rank {
        Rank {
            finished: false,
            bytes,
            uid: PodUid::parse(&format!("{number:032x}")).unwrap(),
        }
    }

    fn kept(ranks: impl IntoIterator<Item = Rank>) -> Vec<Rank> {
        let mut budget = Budget::new(100, 3);
        for rank in ranks {
            budget.insert(rank, ());
        }
        budget.into_entries().map(|(rank, ())| rank).collect()
    }

    #[test]
    fn largest_entries_are_removed() {
        assert_eq!(
            kept([rank(90, 1), rank(5, 2), rank(6, 3)]),
            [rank(5, 2), rank(6, 3)]
        );
        let many = (1..=9).map(|number| rank(number, number));
        assert_eq!(kept(many), [rank(1, 1), rank(2, 2), rank(3, 3)]);
        assert_eq!(kept([rank(101, 1)]), []);
    }

    #[test]
    fn result_does_not_depend_on_the_order() {
        let all: Vec<Rank> = (1..=9).map(|number| rank(30, number)).collect();
        let reversed = all.iter().rev().cloned();
        assert_eq!(kept(all.clone()), kept(reversed));
    }

    #[test]
    fn entries_of_finished_pods_are_removed_first() {
        let finished = Rank {
            finished: true,
            ..rank(1, 1)
        };
        assert_eq!(kept([finished, rank(99, 2), rank(1, 3)]).len(), 2);
        assert!(!kept([rank(1, 1), rank(99, 2)]).is_empty());
    }

    #[test]
    fn duplicate_is_counted_once() {
        let mut budget = Budget::new(100, 3);
        assert_eq!(budget.insert(rank(60, 1), 'a'), []);
        assert_eq!(budget.insert(rank(60, 1), 'b'), []);
        assert_eq!(budget.insert(rank(40, 2), 'c'), []);
    }

    #[test]
    fn size_grows_with_every_text() {
        let mut container = plain::container("app", "shop/app:1");
        let before = size_of_pod(&plain::pod(vec![container.clone()]));
        container.words.push("x".repeat(1000));
        container.env.insert("A".to_owned(), "y".repeat(1000));
        let mut pod = plain::pod(vec![container]);
        pod.annotations.insert("b".to_owned(), "z".repeat(1000));
        assert!(size_of_pod(&pod) > before + 3000);
    }
}
