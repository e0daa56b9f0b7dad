//! The place of the entry in its list.
//!
//! The entry works wherever it is in the list. At the end, it announces only pods that every other plugin has accepted.
//! Another installer may want its own plugin at the end as well. linkerd-cni rewrites every file whose hash is not that
//! of its last write. So the agent moves the entry a few times, and then leaves the order.

use std::time::{Duration, Instant};

use usher_client::{
    error_chain::chain,
    install::{
        error::Error,
        step::{self, Step},
    },
};

use super::{Installer, Outcome};

/// Limit. An installer appends its plugin once when it starts, and perhaps again when it was updated. One that appends it
/// more often would do so without end.
const MOST_MOVES: u32 = 3;
/// Without a move for this long, the count starts again.
const LASTING: Duration = Duration::from_hours(1);

#[derive(Debug, Default)]
pub(super) struct Moves {
    count: u32,
    last: Option<Instant>,
    is_end_reported: bool,
}

impl Moves {
    /// Whether the agent may move the entry again.
    pub(super) fn is_allowed(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now >= last + LASTING) {
            *self = Self::default();
        }
        self.count < MOST_MOVES
    }

    fn tried(&mut self, now: Instant) {
        self.count += 1;
        self.last = Some(now);
    }
}

impl Installer {
    /// Moves the entry to the end of its list. The entry is installed even if that fails.
    pub(super) fn move_to_end(
        &mut self,
        file: &str,
        steps: &[Step],
        now: Instant,
    ) -> Result<Outcome, Error> {
        self.moves.tried(now);
        match step::run(&self.settings.conf_dir, &self.temporary, steps) {
            Ok(()) => tracing::info!(file, "moved the CNI plugin's entry to the end of the list"),
            Err(error) => {
                tracing::info!(file, error = %chain(&error), "could not move the CNI plugin's entry to the end of the list");
            }
        }
        let after = self.situation(now)?;
        Ok(self.outcome(after, now))
    }

    /// Reports once that the order stays.
    pub(super) fn report_order(&mut self, file: &str) {
        if !self.moves.is_end_reported {
            self.moves.is_end_reported = true;
            tracing::info!(
                file,
                "another plugin still follows the CNI plugin after several attempts to move its entry to the end; it stays where it is"
            );
        }
    }
}
