//! The copies of all sandboxes of the node, within one budget.
//!
//! A pod may send as many SYNs as it likes, and every pod of the node may do so at once. Over the budget the sandbox with
//! the most memory loses its oldest copy, so a pod that holds few connections keeps their copies whatever other pods
//! send.

use std::collections::BTreeMap;

use super::{Copies, Held, Syn};
use crate::base::{id::SandboxId, time::Timestamp};

/// Memory for the copies of all sandboxes, in bytes.
pub const BUDGET: usize = 8 * 1024 * 1024;

/// Copies by sandbox.
#[derive(Debug)]
pub struct CopyStore {
    sandboxes: BTreeMap<SandboxId, Copies>,
    bytes: usize,
    budget: usize,
}

impl Default for CopyStore {
    fn default() -> Self {
        Self::with_budget(BUDGET)
    }
}

impl CopyStore {
    /// An empty store for this many bytes.
    pub fn with_budget(budget: usize) -> Self {
        Self {
            sandboxes: BTreeMap::new(),
            bytes: 0,
            budget,
        }
    }

    /// Keeps a copy, in place of an older one of the same connection.
    pub fn keep(&mut self, sandbox: &SandboxId, syn: Syn, arrived: Timestamp) {
        let copies = self.sandboxes.entry(sandbox.clone()).or_default();
        self.bytes -= copies.bytes();
        copies.keep(syn, arrived);
        self.bytes += copies.bytes();
        self.fit();
    }

    /// Puts back a copy that was taken and not sent ([`Copies::put_back`]).
    pub fn put_back(&mut self, sandbox: &SandboxId, held: Held) {
        let Some(copies) = self.sandboxes.get_mut(sandbox) else {
            return;
        };
        self.bytes -= copies.bytes();
        copies.put_back(held);
        self.bytes += copies.bytes();
        self.fit();
    }

    fn fit(&mut self) {
        while self.bytes > self.budget && self.drop_from_largest() {}
    }

    /// Returns whether there was a copy to drop.
    fn drop_from_largest(&mut self) -> bool {
        let largest = self
            .sandboxes
            .values_mut()
            .max_by_key(|copies| copies.bytes());
        let Some(copies) = largest else {
            return false;
        };
        self.bytes -= copies.bytes();
        let dropped = copies.drop_oldest();
        self.bytes += copies.bytes();
        dropped
    }

    /// Takes up to `most` copies of a sandbox, oldest first.
    pub fn take(&mut self, sandbox: &SandboxId, most: usize) -> Vec<Held> {
        let Some(copies) = self.sandboxes.get_mut(sandbox) else {
            return Vec::new();
        };
        self.bytes -= copies.bytes();
        let taken = copies.take(most);
        self.bytes += copies.bytes();
        taken
    }

    pub fn len(&self, sandbox: &SandboxId) -> usize {
        self.sandboxes.get(sandbox).map_or(0, Copies::len)
    }

    /// How many copies of a sandbox were dropped for lack of room.
    pub fn dropped(&self, sandbox: &SandboxId) -> u64 {
        self.sandboxes.get(sandbox).map_or(0, Copies::dropped)
    }

    /// Removes a sandbox and its counters. The caller frees the copies, after it has released its lock.
    pub fn forget(&mut self, sandbox: &SandboxId) -> Option<Copies> {
        let forgotten = self.sandboxes.remove(sandbox)?;
        self.bytes -= forgotten.bytes();
        Some(forgotten)
    }

    /// Memory of all copies, an upper bound.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
