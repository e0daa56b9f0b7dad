//! The worker as a child process, and the socket to it.

use std::{
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    thread,
};

use usher_client::crash_point;
use usher_sys::seqpacket::{self, Connection};

use crate::args::WORKER;

const PROGRAM: &str = "/proc/self/exe";

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("creating the socket pair")]
    Socket(#[from] seqpacket::Error),
    #[error("executing {PROGRAM}")]
    Spawn(#[source] std::io::Error),
}

/// The worker's command line.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) flags: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Running {
    process: Child,
    pub(super) socket: Connection,
}

impl Launch {
    /// Starts the worker. It ends with the thread that calls this, at the latest.
    pub(super) fn start(&self) -> Result<Running, Error> {
        let (ours, theirs) = Connection::pair()?;
        let process = Command::new(PROGRAM)
            .arg0("usher-agent")
            .arg(WORKER)
            .args(&self.flags)
            .env_clear()
            .envs(crash_point::variables())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .map_err(Error::Spawn)?;
        tracing::info!(pid = process.id(), "started the worker process");
        Ok(Running {
            process,
            socket: ours,
        })
    }
}

impl Running {
    /// Kills the process. In a thread: one that is stuck in a system call ends when that returns.
    pub(super) fn end(mut self) {
        let reap = move || {
            drop(self.process.kill());
            drop(self.process.wait());
        };
        // Without a thread it stays a zombie.
        drop(thread::Builder::new().name("reap".to_owned()).spawn(reap));
    }
}
