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

/// An agent that runs until it comes to its place.
#[derive(Debug)]
pub struct Doomed {
    agent: Agent,
    mark: PathBuf,
}

impl Doomed {
    /// Starts it on a node. Does not wait for anything.
    ///
    /// # Panics
    ///
    /// When it is not built.
    pub fn start(node: &Node, server: &ApiServer, place: &str) -> Self {
        let binary = program::beside_this(NAME).unwrap_or_else(|| {
            panic!(
                "{NAME} is not built; run: cargo build --workspace --features usher-agent/boundaries --bin {NAME}"
            )
        });
        let mark = node.scratch().join("boundary");
        let variables = [(PLACE, place.as_ref()), (FILE, mark.as_os_str())];
        let agent = Agent::spawn(node, on(node, &binary), Some(server), &variables);
        Self { agent, mark }
    }

    /// Whether it has come there.
    pub fn is_there(&self) -> bool {
        self.mark.exists()
    }

    /// Whether it serves HTTP, and so all the rest.
    pub fn serves(&self) -> bool {
        self.agent.log.count(|line| served(line).is_some()) > 0
    }

    /// Its log so far.
    pub const fn log(&self) -> &Log {
        self.agent.log()
    }

    /// Has it go on from there, as any other agent.
    pub fn resume(self) -> Agent {
        self.agent.signal(Signal::SIGCONT);
        self.agent
    }

    /// Kills it, as `kill -9` does, and returns its log.
    pub fn kill(self) -> Vec<Value> {
        self.agent.kill()
    }
}
