//! A child process that executes the same program, and a socket to it.

use std::{
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::thread;
use crate::seqpacket::{self, Connection};

const PROGRAM: &str = "/proc/self/exe";
/// The name of the process in `ps`.
const NAME: &str = "usher-agent";

/// A child process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// socketpair(2) failed.
    #[error("creating the socket pair")]
    Socket(#[from] seqpacket::Error),
    /// fork(2) or execve(2) failed.
    #[error("executing {PROGRAM}")]
    Spawn(#[source] std::io::Error),
}

/// The command line and the environment of a child process.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The subcommand.
    pub role: &'static str,
    pub flags: Vec<String>,
    pub variables: Vec<(&'static str, String)>,
}

#[derive(Debug)]
pub struct ChildProcess {
    process: Child,
    pub socket: Connection,
}

impl Launch {
    /// Starts the process, with its end of the socket as standard input.
    pub fn start(&self) -> Result<ChildProcess, Error> {
        let (ours, theirs) = Connection::pair()?;
        let process = Command::new(PROGRAM)
            .arg0(NAME)
            .arg(self.role)
            .args(&self.flags)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .map_err(Error::Spawn)?;
        Ok(ChildProcess {
            process,
            socket: ours,
        })
    }
}

impl ChildProcess {
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether one of its threads runs, or waits for a processor.
    pub fn is_runnable(&self) -> bool {
        thread::is_runnable(self.pid())
    }

    /// How long its threads have waited for a processor. It may decrease when one of them exits.
    pub fn run_delay(&self) -> Duration {
        thread::run_delay(self.pid())
    }

    /// Kills the process, and reaps it on a thread: a system call that does not return, or many marks to close, may
    /// delay its exit.
    pub fn end(mut self) {
        // Fails only if the process has been reaped.
        drop(self.process.kill());
        let reap = move || drop(self.process.wait());
        // If the thread cannot be started, the process stays a zombie until the agent exits.
        drop(
            std::thread::Builder::new()
                .name("reap".to_owned())
                .spawn(reap),
        );
    }
}
