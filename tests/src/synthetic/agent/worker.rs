//! The worker: the child process that does everything inside the network namespaces of pods.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::Agent;
use crate::{
    synthetic::process,
    wait::{found_within, patience},
};

/// Identifies it among the agent's children.
const ARGUMENT: &str = "work";

impl Agent {
    /// The pid of the worker, as soon as there is one.
    pub fn worker(&self) -> u32 {
        self.worker_after(None)
    }

    /// The pid of a worker that is not this one, as soon as there is one.
    pub fn worker_after(&self, previous: Option<u32>) -> u32 {
        found_within(patience(), "a worker", || {
            self.find_worker().filter(|pid| Some(*pid) != previous)
        })
    }

    /// Sends a signal to the worker and returns its pid.
    pub fn signal_worker(&self, signal: Signal) -> u32 {
        let worker = self.worker();
        let pid = i32::try_from(worker).expect("pids are small");
        kill(Pid::from_raw(pid), signal).expect("the worker runs");
        worker
    }

    /// One search can miss it: the list of children is complete only while none of them ends
    /// ([proc, section 3.7](https://docs.kernel.org/filesystems/proc.html)).
    fn find_worker(&self) -> Option<u32> {
        let mut children = process::children(self.pid()).into_iter();
        children.find(|pid| {
            let line = process::command_line(*pid);
            line.get(1).is_some_and(|argument| argument == ARGUMENT)
        })
    }
}
