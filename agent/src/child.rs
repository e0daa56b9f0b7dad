//! A child process of the agent, and the socket to it: the worker or the holder.

use std::{
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    thread,
};

use usher_client::crash_point;
use usher_sys::seqpacket::{self, Connection};

const PROGRAM: &str = "/proc/self/exe";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("creating the socket pair")]
    Socket(#[from] seqpacket::Error),
    #[error("executing {PROGRAM}")]
    Spawn(#[source] std::io::Error),
}

/// The command line of a child process.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The subcommand of `usher-agent`.
    pub(crate) role: &'static str,
    pub(crate) flags: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct ChildProcess {
    process: Child,
    pub(crate) socket: Connection,
}

impl Launch {
    /// Starts the process, with its end of the socket as standard input.
    ///
    /// # Errors
    /// Any [`Error`].
    pub(crate) fn start(&self) -> Result<ChildProcess, Error> {
        let (ours, theirs) = Connection::pair()?;
        let process = Command::new(PROGRAM)
            .arg0("usher-agent")
            .arg(self.role)
            .args(&self.flags)
            .env_clear()
            .envs(crash_point::variables())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .map_err(Error::Spawn)?;
        tracing::info!(
            pid = process.id(),
            role = self.role,
            "started a child process"
        );
        Ok(ChildProcess {
            process,
            socket: ours,
        })
    }
}

impl ChildProcess {
    /// Kills the process and reaps it on a thread: a system call that does not return, or many marks to close, delay its
    /// end.
    pub(crate) fn end(mut self) {
        let reap = move || {
            drop(self.process.kill());
            drop(self.process.wait());
        };
        // Without a thread it stays a zombie.
        drop(thread::Builder::new().name("reap".to_owned()).spawn(reap));
    }
}
