//! An agent that stops at a named point of its program, to be killed or delayed exactly there.
//!
//! It is a separate binary that is not released: the agent built with the feature `boundaries`. The module of that name
//! documents its variables.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Agent, Log, on, served};
use crate::synthetic::{ApiServer, Node, program};

const NAME: &str = "usher-agent-boundaries";
const PLACE: &str = "USHER_BOUNDARY";
const FILE: &str = "USHER_BOUNDARY_FILE";

/// An agent that runs until its kill point.
#[derive(Debug)]
pub struct Doomed {
    agent: Agent,
    mark: PathBuf,
}

impl Doomed {
    /// Starts it on a node, and waits for nothing.
    ///
    /// # Panics
    ///
    /// If it is not built.
    pub fn start(node: &Node, server: &ApiServer, place: &str) -> Self {
        Self::start_with(node, server, place, &[])
    }

    /// The same with additional flags.
    ///
    /// # Panics
    ///
    /// If it is not built.
    pub fn start_with(node: &Node, server: &ApiServer, place: &str, flags: &[String]) -> Self {
        let binary = program::beside_this(NAME).unwrap_or_else(|| {
            panic!(
                "{NAME} is not built; run: cargo build --workspace --features usher-agent/boundaries --bin {NAME}"
            )
        });
        let mark = node.scratch().join("boundary");
        let variables = [(PLACE, place.as_ref()), (FILE, mark.as_os_str())];
        let mut command = on(node, &binary);
        command.args(flags);
        let agent = Agent::spawn(node, command, Some(server), &variables);
        Self { agent, mark }
    }

    /// Whether it has reached the kill point.
    pub fn is_there(&self) -> bool {
        self.mark.exists()
    }

    /// Whether it serves HTTP, so that all other parts run as well.
    pub fn serves(&self) -> bool {
        self.agent.log.count(|line| served(line).is_some()) > 0
    }

    pub const fn log(&self) -> &Log {
        self.agent.log()
    }

    /// Resumes it at the kill point, as a normal agent.
    pub fn resume(self) -> Agent {
        self.agent.signal(Signal::SIGCONT);
        self.agent.signal_worker(Signal::SIGCONT);
        self.agent
    }

    /// Kills it with SIGKILL, and returns its log.
    pub fn kill(self) -> Vec<Value> {
        self.agent.kill()
    }
}
