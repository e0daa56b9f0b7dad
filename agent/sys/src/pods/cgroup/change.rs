//! What the tree tells: what came and went, and what could not be looked at.

use std::{io, path::PathBuf};

use usher_core::{
    base::id::{ContainerKey, PodUid},
    metric::value::Unseen,
};

/// A cgroup came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A pod's directory exists.
    PodAppeared(PodUid),
    /// A pod's directory is gone.
    PodGone(PodUid),
    /// A container's directory exists, at this path.
    ContainerAppeared(ContainerKey, PathBuf),
    /// A container's directory is gone.
    ContainerGone(ContainerKey),
}

/// The tree cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No inotify instance could be made.
    #[error("making an inotify instance")]
    Init(#[source] io::Error),
    /// The kernel's queue could not be read.
    #[error("reading inotify events")]
    Read(#[source] io::Error),
    /// A directory could not be watched.
    #[error("watching {path:?}")]
    Watch { path: PathBuf, source: io::Error },
    /// More happened than the kernel keeps (`fs.inotify.max_queued_events`).
    #[error("the kernel dropped inotify events; listed everything again")]
    Overflow,
    /// A directory could not be listed.
    #[error("listing {path:?}")]
    List { path: PathBuf, source: io::Error },
}

impl Error {
    /// What failed, for metrics.
    pub fn kind(&self) -> Unseen {
        match self {
            Self::Init(_) => Unseen::InotifyInit,
            Self::Read(_) => Unseen::InotifyRead,
            Self::Overflow => Unseen::InotifyOverflow,
            Self::Watch { .. } => Unseen::InotifyWatch,
            Self::List { .. } => Unseen::CgroupList,
        }
    }

    /// What is there already is not seen, which more than a watch would show.
    pub(super) const fn hides(&self) -> bool {
        matches!(self, Self::List { .. })
    }
}
