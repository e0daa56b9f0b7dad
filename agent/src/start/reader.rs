//! Reads what the init processes of starting containers execute and mount. The event loop does not wait for it.

use std::{io, os::fd::OwnedFd};

use tokio::task::JoinSet;
use usher_client::error_chain::chain;
use usher_core::base::id::{ContainerId, ContainerKey, Pid};
use usher_sys::{
    oci::bundle,
    pods::{proc::ProcRoot, reads::Reads},
};

#[derive(Debug)]
pub(super) struct Reader {
    proc: ProcRoot,
    reads: Reads,
    tasks: JoinSet<Option<Found>>,
}

#[derive(Debug)]
pub(super) enum Found {
    /// The mounts of a container that may contain its program.
    Volumes(ContainerId, Vec<OwnedFd>),
    /// Whether a container's init process runs its program without an exec event; None if it has exited.
    Program(ContainerId, Occasion, Option<bool>),
}

/// Why the program is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Occasion {
    /// The container has a new mark, and this process.
    Marked(Pid),
    /// Its start was released without an exec event.
    Released { at_limit: bool },
}

impl Reader {
    pub(super) fn new(proc: ProcRoot, reads: Reads) -> Self {
        Self {
            proc,
            reads,
            tasks: JoinSet::new(),
        }
    }

    /// Reads the volumes of a container. Its program may start unheld before the result.
    pub(super) fn read_volumes(&mut self, key: ContainerKey, init: Pid) {
        let (proc, reads) = (self.proc.clone(), self.reads.clone());
        self.tasks.spawn(async move {
            let read = reads.run(&key.pod, move || bundle::volumes(&proc, init));
            match read.await.map_err(io::Error::other).flatten() {
                Ok(volumes) => Some(Found::Volumes(key.id, volumes)),
                // Usually the process has exited in the meantime.
                Err(error) => {
                    tracing::debug!(container_id = %key.id, error = %chain(&error), "could not read a container's mounts; a program on a volume starts unheld");
                    None
                }
            }
        });
    }

    pub(super) fn read_program(&mut self, key: ContainerKey, init: Pid, occasion: Occasion) {
        let (proc, reads) = (self.proc.clone(), self.reads.clone());
        self.tasks.spawn(async move {
            let read = reads.run(&key.pod, move || bundle::started(&proc, init));
            let started = read.await.map_err(io::Error::other).flatten();
            let started = started.inspect_err(|error| {
                tracing::debug!(container_id = %key.id, error = %chain(error), "could not read what a container executes");
            });
            Some(Found::Program(key.id, occasion, started.ok()))
        });
    }

    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Found {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Some(found))) => return found,
                // Nothing was found, or the task panicked.
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}
