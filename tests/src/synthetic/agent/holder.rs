//! The holder: the child process in which an agent holds starts.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Agent;
use crate::synthetic::process::{self, Traced};
use crate::wait::patience;

/// Identifies it among the agent's children.
const ARGUMENT: &str = "hold-starts";
/// There is no notification of a new child, so this is the polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// The holder process of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pid: u32,
}

impl Agent {
    /// The current holder, if there is one.
    pub fn holder(&self) -> Option<Holder> {
        let mut children = process::children(self.pid()).into_iter();
        let pid = children.find(|pid| {
            let line = process::command_line(*pid);
            line.iter().any(|argument| argument == ARGUMENT)
        })?;
        Some(Holder { pid })
    }

    /// Waits until there is a holder other than this one.
    ///
    /// # Panics
    ///
    /// After a timeout.
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
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// Sends it a signal, if it still runs.
    pub fn signal(self, signal: Signal) {
        let pid = i32::try_from(self.pid).expect("pids are small");
        kill(Pid::from_raw(pid), signal).ok();
    }

    /// Kills it, and returns whether it ran. Its agent is gone, so if the process still matches,
    /// no other process has its pid.
    pub(super) fn end(self) -> bool {
        let line = process::command_line(self.pid);
        let runs = line.iter().any(|argument| argument == ARGUMENT);
        if runs {
            self.signal(Signal::SIGKILL);
        }
        runs
    }

    /// Whether it runs: neither gone nor a zombie.
    pub fn lives(self) -> bool {
        process::state(self.pid).is_some_and(|state| state != 'Z' && state != 'X')
    }

    /// Stops it while this runs, as a debugger does: only SIGKILL
    /// ends it.
    pub fn wedged<T>(self, meanwhile: impl FnOnce() -> T) -> T {
        let traced = Traced::stop(self.pid);
        let outcome = meanwhile();
        traced.release();
        outcome
    }

    pub fn open_descriptors(self) -> usize {
        process::open_descriptors(self.pid)
    }
}
