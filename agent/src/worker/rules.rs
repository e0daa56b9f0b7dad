//! Checks the cost of the pod's own rules before the worker sends a packet in its namespace.
//!
//! A thread that is stuck in the kernel occupies a processor completely. The worker tolerates stuck threads, but a few
//! such pods would occupy all processors of a node.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
    time::{Duration, Instant},
};

use nix::errno::Errno;
use usher_client::error_chain::chain;
use usher_core::worker::{MAX_EVALUATIONS, QuarantineReason};
use usher_sys::net::{
    iptables,
    netlink::{Protocol, Socket},
    netns::Netns,
    nft::{self, Cost, NftError},
};

/// How long a read is retried while other large rulesets are read: less than the limit of a change.
const BUSY: Duration = Duration::from_millis(300);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// The minimum number of attempts, because the thread may wait for a processor for longer than [`BUSY`].
const ATTEMPTS: usize = 10;
/// How long a thread waits for the one that reads rules of iptables-legacy, which usually takes less than 1 ms.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);
/// How long it waits between two attempts to lock.
const LOCK_POLL: Duration = Duration::from_millis(1);

/// Locked while a thread reads rules of iptables-legacy.
static LEGACY: Mutex<()> = Mutex::new(());

/// The rules of nftables at the last check of a namespace. Every change of them increments the generation.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Option<Cost>>);

impl Cache {
    /// Reads the rules of the namespace if they have changed since the last check. Unreadable rules count as cheap,
    /// because the worker tolerates stuck threads.
    ///
    /// Closing the returned socket may wait for changes of rules, so close it after the packet is sent.
    pub(super) fn check(&self, netns: &Netns) -> Result<Option<Socket>, QuarantineReason> {
        let start = Instant::now();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let socket = match netns.netlink_here(Protocol::Netfilter) {
                Ok(socket) => socket,
                Err(error) => {
                    tracing::debug!(error = %chain(&error), "could not open a socket to read rules");
                    return Ok(None);
                }
            };
            match self.cost(netns, &socket) {
                Ok(cost) => return verdict(cost.evaluations).map(|()| Some(socket)),
                // Large rules that cannot be read now. The next attempt needs another socket.
                Err(error)
                    if error.is(Errno::EBUSY)
                        && (attempts < ATTEMPTS || start.elapsed() < BUSY) =>
                {
                    drop(socket);
                    thread::sleep(PAUSE);
                }
                Err(error)
                    if error.is(Errno::EBUSY) || error.source.kind() == io::ErrorKind::TimedOut =>
                {
                    return Err(QuarantineReason::CostlyRules);
                }
                Err(error) => {
                    tracing::debug!(error = %chain(&error), "could not read the rules of a namespace");
                    return Ok(Some(socket));
                }
            }
        }
    }

    /// [`Self::check`] after a change by usher, with its socket: opens no other one while the pod's rules are unchanged.
    /// Those of iptables-legacy have no generation, so they are read.
    pub(super) fn check_again(
        &self,
        open: &Socket,
        netns: &Netns,
    ) -> Result<Option<Socket>, QuarantineReason> {
        match self.known(open) {
            Ok(Some(cost)) => verdict(cost.evaluations.max(legacy(netns))).map(|()| None),
            _ => self.check(netns),
        }
    }

    /// Forgets the last check.
    pub(super) fn clear(&self) {
        *self.cache() = None;
    }

    /// The generation at the last check.
    pub(super) fn generation(&self) -> Option<u32> {
        self.cache().map(|cost| cost.generation)
    }

    /// Records that this many batches only removed something, since the cache had this generation. If the pod has changed
    /// its rules as well, the generation differs from the expected one, and the next check reads the rules.
    pub(super) fn removed(&self, before: Option<u32>, batches: usize) {
        let mut cache = self.cache();
        if let Some(cost) = &mut *cache
            && Some(cost.generation) == before
        {
            let batches = u32::try_from(batches).unwrap_or_default();
            cost.generation = cost.generation.wrapping_add(batches);
        }
    }

    /// The cost at the last check; None if the rules have changed since.
    fn known(&self, socket: &Socket) -> Result<Option<Cost>, NftError> {
        let generation = nft::generation(socket)?;
        Ok(self.cache().filter(|known| known.generation == generation))
    }

    fn cost(&self, netns: &Netns, socket: &Socket) -> Result<Cost, NftError> {
        if let Some(known) = self.known(socket)? {
            return Ok(known);
        }
        let mut cost = nft::cost(socket)?;
        // Before a request, rules that are added later are left to the deadline.
        cost.evaluations = cost.evaluations.saturating_add(legacy(netns));
        *self.cache() = Some(cost);
        Ok(cost)
    }

    fn cache(&self) -> MutexGuard<'_, Option<Cost>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The evaluations by rules of iptables-legacy. Unreadable ones count as none.
///
/// The kernel has one lock for the rules of all namespaces
/// ([`xt_find_table_lock`](https://github.com/torvalds/linux/blob/v6.12/net/netfilter/x_tables.c)), and copies them to a
/// process while it has it. A pod can let that take any time, so only one thread waits for it.
fn legacy(netns: &Netns) -> u64 {
    let Some(_lock) = legacy_lock(&LEGACY) else {
        tracing::debug!(netns = %netns.id(), "another thread reads rules of iptables-legacy");
        return 0;
    };
    iptables::evaluations(netns).unwrap_or_else(|error| {
        tracing::debug!(error = %chain(&error), "could not read the rules of iptables-legacy");
        0
    })
}

/// Waits for another thread, at most for [`LOCK_TIMEOUT`].
fn legacy_lock(mutex: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    let start = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(lock) => return Some(lock),
            Err(TryLockError::Poisoned(lock)) => return Some(lock.into_inner()),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                thread::sleep(LOCK_POLL);
            }
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

fn verdict(evaluations: u64) -> Result<(), QuarantineReason> {
    match evaluations > MAX_EVALUATIONS {
        true => Err(QuarantineReason::CostlyRules),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(generation: u32) -> Cache {
        let evaluations = 7;
        Cache(Mutex::new(Some(Cost {
            generation,
            evaluations,
        })))
    }

    #[test]
    fn stuck_reader_is_not_awaited_for_long() {
        let mutex = Mutex::new(());
        let first = legacy_lock(&mutex).unwrap();
        assert!(legacy_lock(&mutex).is_none());
        drop(first);
        assert!(legacy_lock(&mutex).is_some());
    }

    #[test]
    fn own_batches_are_expected() {
        let cache = cache(5);
        let before = cache.generation();
        cache.removed(before, 2);
        assert_eq!(cache.generation(), Some(7));
        let empty = Cache::default();
        empty.removed(empty.generation(), 1);
        assert_eq!(empty.generation(), None);
    }

    /// Otherwise the next change of the pod would have the expected generation.
    #[test]
    fn check_after_the_batch_is_not_counted_again() {
        let cache = cache(5);
        let before = cache.generation();
        cache.cache().as_mut().unwrap().generation = 6;
        cache.removed(before, 1);
        assert_eq!(cache.generation(), Some(6));
    }
}
