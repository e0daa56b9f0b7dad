//! The faults and their times, in nanoseconds of `CLOCK_MONOTONIC`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use usher_tests::synthetic::clock::monotonic_ns;

use crate::fault::Fault;

/// The end of a fault that lasts.
pub(crate) const NEVER: u64 = u64::MAX;

/// One fault that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) fault: Fault,
    /// The time of its start.
    pub(crate) from: u64,
    /// The time at which its effect was confirmed; [`NEVER`] if it was not.
    pub(crate) sure: u64,
    /// The time at which its end was requested.
    pub(crate) to: u64,
}

impl Trouble {
    pub(crate) const fn overlaps(&self, from: u64, to: u64) -> bool {
        self.from <= to && from <= self.to
    }
}

#[derive(Debug, Default)]
pub(crate) struct FaultLog(Mutex<Vec<Trouble>>);

impl FaultLog {
    /// Records the start of a fault, and returns its number.
    pub(crate) fn begin(&self, fault: Fault) -> usize {
        let mut all = self.all();
        all.push(Trouble {
            fault,
            from: monotonic_ns(),
            sure: NEVER,
            to: NEVER,
        });
        all.len() - 1
    }

    /// Records its confirmation.
    pub(crate) fn sure(&self, number: usize) {
        self.all()[number].sure = monotonic_ns();
    }

    /// Records its end.
    pub(crate) fn end(&self, number: usize) {
        self.all()[number].to = monotonic_ns();
    }

    /// The time without faults, at most since this time.
    pub(crate) fn calm_since(&self, since: u64) -> Duration {
        let last = self.all().iter().map(|trouble| trouble.to).max();
        let since = last.unwrap_or(0).max(since);
        Duration::from_nanos(monotonic_ns().saturating_sub(since))
    }

    /// All faults.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        self.all().clone()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Trouble>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
