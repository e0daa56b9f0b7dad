//! Observations of bundles, and errors of watching them.

use std::{
    io,
    path::{Path, PathBuf},
};

use usher_core::{
    base::id::{ContainerId, Pid},
    node::bundle::Bundle,
};

use crate::files::directory;

/// A change of one bundle.
#[derive(Debug)]
pub enum Observation {
    /// The bundle was created, for this pod and container.
    Created(ContainerId, Bundle),
    /// The root file system was mounted. The error is the reason why it cannot be marked.
    Mounted(ContainerId, Result<(), String>),
    /// The container has its first process, which will execute the container's program, or has done so.
    Init(ContainerId, Pid),
    Removed(ContainerId),
    /// The pod and container are not readable, for this reason. They may become readable.
    Unreadable(ContainerId, String),
}

/// Bundles cannot be watched any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("watching bundles in {path:?}")]
    Watch { path: PathBuf, source: io::Error },
    /// A parent of their directory cannot be watched.
    #[error("waiting for the directory of bundles")]
    Place(#[from] directory::Error),
    #[error("listing {path:?}")]
    List { path: PathBuf, source: io::Error },
    #[error("reading inotify events of {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("watching mounts")]
    Mounts(#[source] io::Error),
}

impl Error {
    pub(super) fn watch(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Watch { path, source }
    }

    pub(super) fn list(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::List { path, source }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Read { path, source }
    }
}
