//! The worker: the child process that does everything inside the network namespaces of pods.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::Agent;
use crate::synthetic::process;

/// Identifies it among the agent's children.
const ARGUMENT: &str = "work";

impl Agent {
    /// The pid of the current worker, if there is one.
    pub fn worker(&self) -> Option<u32> {
        let mut children = process::children(self.pid()).into_iter();
        children.find(|pid| {
            let line = process::command_line(*pid);
            line.get(1).is_some_and(|argument| argument == ARGUMENT)
        })
    }

    /// Sends a signal to the worker, if it runs.
    pub fn signal_worker(&self, signal: Signal) {
        if let Some(pid) = self.worker() {
            let pid = i32::try_from(pid).expect("pids are small");
            kill(Pid::from_raw(pid), signal).ok();
        }
    }
}
