//! What is told of bundles.

use std::{
    io,
    path::{Path, PathBuf},
};

use usher_core::{
    base::id::{ContainerId, Pid},
    node::bundle::Bundle,
};

use crate::files::directory;

/// Something that happened to one bundle.
#[derive(Debug)]
pub enum Sight {
    /// It was made, and says whose it is.
    Made(ContainerId, Bundle),
    /// Its root file system is mounted: one that can be marked, or why not.
    Mounted(ContainerId, Result<(), String>),
    /// It has its first process, which waits to execute the container's
    /// program, or has done so.
    Init(ContainerId, Pid),
    /// It is not there any more.
    Gone(ContainerId),
    /// It does not say whose it is, and why. It may yet.
    Unreadable(ContainerId, String),
}

/// Bundles cannot be watched any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Their directory cannot be watched.
    #[error("watching bundles in {path:?}")]
    Watch { path: PathBuf, source: io::Error },
    /// The way to their directory cannot be watched.
    #[error("waiting for the directory of bundles")]
    Place(#[from] directory::Error),
    /// Their directory cannot be read.
    #[error("listing {path:?}")]
    List { path: PathBuf, source: io::Error },
    /// The kernel's queue cannot be read.
    #[error("reading inotify events of {path:?}")]
    Read { path: PathBuf, source: io::Error },
    /// Mounts cannot be waited for.
    #[error("watching mounts")]
    Mounts(#[source] io::Error),
}

impl Error {
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Watch { .. } | Self::Place(_) => "watch",
            Self::List { .. } => "list",
            Self::Read { .. } => "read",
            Self::Mounts(_) => "mounts",
        }
    }

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
