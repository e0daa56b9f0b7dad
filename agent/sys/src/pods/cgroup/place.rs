//! A watched directory, and how often it changes.

use std::{path::PathBuf, time::Duration};

use tokio::time::Instant;
use usher_core::base::id::PodUid;

/// Limit of a directory's changes in each [`PERIOD`]. The kubelet creates a pod's containers one by one, some in a
/// second.
const CHANGES: u32 = 64;
const PERIOD: Duration = Duration::from_secs(1);

/// The level of a watched directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Level {
    /// The directory that contains or will contain `kubepods`.
    Root,
    Kubepods,
    Qos,
    Pod(PodUid),
}

#[derive(Debug)]
pub(super) struct Place {
    pub(super) level: Level,
    pub(super) path: PathBuf,
    /// The begin of the current period, and the changes in it.
    period: Option<Instant>,
    changes: u32,
}

impl Place {
    pub(super) const fn new(level: Level, path: PathBuf) -> Self {
        Self {
            level,
            path,
            period: None,
            changes: 0,
        }
    }

    /// Counts a change. Returns whether the directory has changed too often. Only a pod's directory belongs to one pod.
    pub(super) fn is_busy(&mut self, now: Instant) -> bool {
        if !matches!(self.level, Level::Pod(_)) {
            return false;
        }
        if self.period.is_none_or(|begin| now - begin > PERIOD) {
            self.period = Some(now);
            self.changes = 0;
        }
        self.changes += 1;
        self.changes > CHANGES
    }
}
