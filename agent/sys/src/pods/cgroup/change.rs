//! Changes of the cgroup tree, and errors of its watches.

use std::{
    io,
    path::{Path, PathBuf},
};

use usher_core::{
    base::id::{ContainerKey, PodUid},
    metric::value::DiscoveryOperation,
};

/// A pod or container appeared or disappeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    PodAppeared(PodUid),
    PodGone(PodUid),
    /// A container, with the path of its cgroup.
    ContainerAppeared(ContainerKey, PathBuf),
    ContainerGone(ContainerKey),
}

/// The tree cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("making an inotify instance")]
    Init(#[source] io::Error),
    #[error("reading inotify events")]
    Read(#[source] io::Error),
    #[error("watching {path:?}")]
    Watch { path: PathBuf, source: io::Error },
    /// The kernel's queue overflowed (`fs.inotify.max_queued_events`).
    #[error("the kernel dropped inotify events; listed everything again")]
    Overflow,
    /// Only a directory that a process other than the container runtime changes.
    #[error("{path:?} changes too often to be watched; it is listed every 2 s")]
    Busy { path: PathBuf },
    #[error("listing {path:?}")]
    List { path: PathBuf, source: io::Error },
}

impl Error {
    /// Label for metrics.
    pub fn kind(&self) -> DiscoveryOperation {
        match self {
            Self::Init(_) => DiscoveryOperation::InotifyInit,
            Self::Read(_) => DiscoveryOperation::InotifyRead,
            Self::Overflow => DiscoveryOperation::InotifyOverflow,
            Self::Busy { .. } => DiscoveryOperation::InotifyBusy,
            Self::Watch { .. } => DiscoveryOperation::InotifyWatch,
            Self::List { .. } => DiscoveryOperation::CgroupList,
        }
    }

    /// The directory, if it fails until its watch or listing succeeds. A busy one is watched again by the next listing.
    pub(super) fn failing_path(&self) -> Option<&Path> {
        match self {
            Self::Watch { path, .. } | Self::List { path, .. } => Some(path),
            Self::Init(_) | Self::Read(_) | Self::Overflow | Self::Busy { .. } => None,
        }
    }

    /// Whether existing directories may be missing, not only future changes.
    pub(super) const fn hides_existing(&self) -> bool {
        matches!(self, Self::List { .. })
    }
}
