//! The copies of SYNs of all tables, which share one budget.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use usher_core::{
    base::{id::SandboxId, time::Timestamp},
    hold::syn::{CopyStore, Held, Syn},
};

/// Copies in one batch. The others remain within the budget in the meantime.
const BATCH: usize = 256;

/// The store of all tables. No lock is held across IO.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeCopies(Arc<Mutex<CopyStore>>);

impl NodeCopies {
    pub(crate) fn of(&self, sandbox: &SandboxId) -> SandboxCopies {
        SandboxCopies {
            node: self.clone(),
            sandbox: sandbox.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CopyStore> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The copies of one table. Dropping it removes them from the store.
#[derive(Debug)]
pub(crate) struct SandboxCopies {
    node: NodeCopies,
    sandbox: SandboxId,
}

impl SandboxCopies {
    pub(super) fn keep(&self, syn: Syn, arrived: Timestamp) {
        self.node.lock().keep(&self.sandbox, syn, arrived);
    }

    pub(super) fn len(&self) -> usize {
        self.node.lock().len(&self.sandbox)
    }

    /// The oldest copies, up to `most`; empty when none is left.
    pub(super) fn take_batch(&self, most: usize) -> Vec<Held> {
        self.node.lock().take(&self.sandbox, most.min(BATCH))
    }

    pub(super) fn put_back(&self, held: Held) {
        self.node.lock().put_back(&self.sandbox, held);
    }

    /// How many copies were dropped for lack of room.
    pub(super) fn dropped(&self) -> u64 {
        self.node.lock().dropped(&self.sandbox)
    }
}

impl Drop for SandboxCopies {
    fn drop(&mut self) {
        // Unlocks before the copies are freed.
        let forgotten = self.node.lock().forget(&self.sandbox);
        drop(forgotten);
    }
}
