//! What went wrong when. Times are nanoseconds of `CLOCK_MONOTONIC`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use usher_tests::synthetic::clock::monotonic_ns;

use crate::fault::Fault;

/// What is not over yet.
pub(crate) const NEVER: u64 = u64::MAX;

/// One fault, as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Which.
    pub(crate) fault: Fault,
    /// When it began.
    pub(crate) from: u64,
    /// When it was known to count; [`NEVER`] where that was not seen.
    pub(crate) sure: u64,
    /// When its end was ordered.
    pub(crate) to: u64,
}

impl Trouble {
    pub(crate) const fn overlaps(&self, from: u64, to: u64) -> bool {
        self.from <= to && from <= self.to
    }
}

/// All faults of a round so far.
#[derive(Debug, Default)]
pub(crate) struct Weather(Mutex<Vec<Trouble>>);

impl Weather {
    /// A fault begins; its number.
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

    /// It is known to count.
    pub(crate) fn sure(&self, number: usize) {
        self.all()[number].sure = monotonic_ns();
    }

    /// It is over.
    pub(crate) fn end(&self, number: usize) {
        self.all()[number].to = monotonic_ns();
    }

    /// How long nothing has been wrong, at most since then.
    pub(crate) fn calm_since(&self, since: u64) -> Duration {
        let last = self.all().iter().map(|trouble| trouble.to).max();
        let since = last.unwrap_or(0).max(since);
        Duration::from_nanos(monotonic_ns().saturating_sub(since))
    }

    /// What there was.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        self.all().clone()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Trouble>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
