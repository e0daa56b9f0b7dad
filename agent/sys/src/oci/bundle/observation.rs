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
    #[error("{operation} {path:?}")]
    Directory {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A parent of their directory cannot be watched.
    #[error("waiting for the directory of bundles")]
    Place(#[from] directory::Error),
    #[error("watching mounts")]
    Mounts(#[source] io::Error),
}

pub(super) const WATCHING: &str = "watching bundles in";

pub(super) fn failed(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Directory {
        operation,
        path: path.to_owned(),
        source,
    }
}
