//! Why a container cannot be followed.

use std::{io, path::PathBuf};

use usher_core::metric::value::Unseen;

use crate::{
    net::netns,
    pods::{pidfd, proc},
};

/// A container cannot be followed; its end is still seen by its cgroup's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its cgroup does not tell its processes.
    #[error("reading {path:?}")]
    Procs { path: PathBuf, source: io::Error },
    /// `/proc` does not tell what they are.
    #[error("looking at the processes of container {id}")]
    Proc {
        id: usher_core::base::id::ContainerId,
        source: proc::Error,
    },
    /// Its init process could not be opened.
    #[error("opening the init process of container {id}")]
    Pidfd {
        id: usher_core::base::id::ContainerId,
        source: pidfd::Error,
    },
    /// Its network namespace could not be opened.
    #[error("looking at the network namespace of container {id}")]
    Netns {
        id: usher_core::base::id::ContainerId,
        source: netns::Error,
    },
    /// No process came, or none but the runtime's.
    #[error("container {0} showed no process of its own in all the time that a start may take")]
    NoProcess(usher_core::base::id::ContainerId),
}

impl Error {
    /// What failed, for metrics.
    pub fn kind(&self) -> Unseen {
        match self {
            Self::Procs { .. } => Unseen::CgroupProcs,
            Self::Proc { .. } => Unseen::Proc,
            Self::Pidfd { .. } => Unseen::Pidfd,
            Self::Netns { .. } => Unseen::Netns,
            Self::NoProcess(_) => Unseen::NoProcess,
        }
    }
}
