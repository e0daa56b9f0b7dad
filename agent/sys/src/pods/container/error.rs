//! Errors of following a container.

use std::{io, path::PathBuf};

use usher_core::{base::id::ContainerId, metric::value::DiscoveryOperation};

use crate::{
    net::netns,
    pods::{pidfd, proc},
};

/// The container cannot be followed; the removal of its cgroup is still reported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading {path:?}")]
    Procs { path: PathBuf, source: io::Error },
    /// The files of its processes in `/proc` cannot be read.
    #[error("reading the processes of container {id}")]
    Proc {
        id: ContainerId,
        source: proc::Error,
    },
    #[error("starting a thread that reads the processes of container {id}")]
    Thread { id: ContainerId, source: io::Error },
    #[error("opening the init process of container {id}")]
    Pidfd {
        id: ContainerId,
        source: pidfd::Error,
    },
    #[error("opening the network namespace of container {id}")]
    Netns {
        id: ContainerId,
        source: netns::Error,
    },
    #[error("container {0} had no process of its own within the time limit of a start")]
    NoProcess(ContainerId),
}

pub(super) fn unreadable(id: &ContainerId) -> impl Fn(proc::Error) -> Error + Copy {
    move |source| Error::Proc {
        id: id.clone(),
        source,
    }
}

impl Error {
    /// Label for metrics.
    pub fn kind(&self) -> DiscoveryOperation {
        match self {
            Self::Procs { .. } => DiscoveryOperation::CgroupProcs,
            Self::Proc { .. } | Self::Thread { .. } => DiscoveryOperation::Proc,
            Self::Pidfd { .. } => DiscoveryOperation::Pidfd,
            Self::Netns { .. } => DiscoveryOperation::Netns,
            Self::NoProcess(_) => DiscoveryOperation::NoProcess,
        }
    }
}
