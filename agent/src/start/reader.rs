//! Reads what the init processes of starting containers execute and mount. The event loop does not wait for it.

use std::{io, os::fd::OwnedFd, time::Instant};

use tokio::task::JoinSet;
use usher_client::error_chain::chain;
use usher_core::base::id::{ContainerId, ContainerKey, Pid, PodUid};
use usher_sys::{
    oci::bundle,
    pods::{
        proc::ProcRoot,
        reads::{ALL_MOUNTS, LONG_MOUNTS, Length, Reads},
    },
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
    /// What the init process of a container executes.
    Program(ContainerId, Occasion, Program),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// The runtime's.
    Runtime,
    /// One of the container, at this time.
    OfContainer(Instant),
    /// The process has exited.
    Exited,
}

/// Why the program is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Occasion {
    /// The container has new marks, and this process: a program that runs now was not held.
    Marked(Pid),
    /// Its start was released without an exec event. Where an exec was denied, the process may have exited.
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
            let read = move |limit| bundle::volumes(&proc, init, limit);
            match of_mounts(&reads, &key.pod, read).await {
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
            let read = move |limit| {
                let started = bundle::started(&proc, init, limit)?;
                Ok(started.map(|started| started.then(Instant::now)))
            };
            let program = match of_mounts(&reads, &key.pod, read).await {
                Ok(Some(at)) => Program::OfContainer(at),
                Ok(None) => Program::Runtime,
                Err(error) => {
                    tracing::debug!(container_id = %key.id, error = %chain(&error), "could not read what a container executes");
                    Program::Exited
                }
            };
            Some(Found::Program(key.id, occasion, program))
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

/// Reads something of the mounts of a pod's process: first where they are short, as a rule.
async fn of_mounts<T: Default + Send + 'static>(
    reads: &Reads,
    pod: &PodUid,
    read: impl Fn(usize) -> io::Result<Option<T>> + Clone + Send + 'static,
) -> io::Result<T> {
    let first = read.clone();
    if let Some(found) = reads
        .run(pod, Length::Short, move || first(LONG_MOUNTS))
        .await??
    {
        return Ok(found);
    }
    let found = reads
        .run(pod, Length::Long, move || read(ALL_MOUNTS))
        .await??;
    Ok(found.unwrap_or_default())
}
