//! The process in which an agent holds starts: its child.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Agent;
use crate::synthetic::process::{self, Traced};
use crate::wait::patience;

/// Tells it from other children.
const ARGUMENT: &str = "hold-starts";
/// There is no notification of a new child, so this is the polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// A process that holds starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pid: u32,
}

impl Agent {
    /// The process in which it holds starts, if it has one now.
    pub fn holder(&self) -> Option<Holder> {
        let mut children = process::children(self.pid()).into_iter();
        let pid = children.find(|pid| {
            let line = process::command_line(*pid);
            line.iter().any(|argument| argument == ARGUMENT)
        })?;
        Some(Holder { pid })
    }

    /// Waits until it has such a process, another one than this.
    ///
    /// # Panics
    ///
    /// When that takes too long.
    pub fn wait_holder(&self, other_than: Option<Holder>) -> Holder {
        let deadline = Instant::now() + patience();
        loop {
            if let Some(holder) = self.holder().filter(|found| Some(*found) != other_than) {
                return holder;
            }
            assert!(
                Instant::now() < deadline,
                "no holder; the agent's log: {:#?}",
                self.log().lines()
            );
            std::thread::sleep(LOOK);
        }
    }
}

impl Holder {
    /// Its pid.
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// Sends it a signal. It may be gone.
    pub fn signal(self, signal: Signal) {
        let pid = i32::try_from(self.pid).expect("pids are small");
        kill(Pid::from_raw(pid), signal).ok();
    }

    /// Kills it. Its agent is gone, so no other process has its pid if it is
    /// what it was.
    pub(super) fn end(self) {
        let line = process::command_line(self.pid);
        if line.iter().any(|argument| argument == ARGUMENT) {
            self.signal(Signal::SIGKILL);
        }
    }

    /// Whether it runs: neither gone nor dead and not reaped.
    pub fn lives(self) -> bool {
        process::state(self.pid).is_some_and(|state| state != 'Z' && state != 'X')
    }

    /// Stops it while this runs, as a debugger does: no signal wakes it but
    /// SIGKILL.
    pub fn wedged<T>(self, meanwhile: impl FnOnce() -> T) -> T {
        let traced = Traced::stop(self.pid);
        let outcome = meanwhile();
        traced.release();
        outcome
    }

    /// Number of its open descriptors.
    pub fn open_descriptors(self) -> usize {
        process::open_descriptors(self.pid)
    }
}
