//! Does nothing until SIGTERM, and reaps orphans: the sandbox process of every pod and pid 1 of the node.
//!
//! Signals are blocked and waited for, so there is no handler and nothing to race with.

use nix::{
    sys::{
        signal::{SigSet, Signal},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

fn main() -> nix::Result<()> {
    let mut awaited = SigSet::empty();
    awaited.add(Signal::SIGCHLD);
    awaited.add(Signal::SIGINT);
    awaited.add(Signal::SIGTERM);
    awaited.thread_block()?;
    while awaited.wait()? == Signal::SIGCHLD {
        // One SIGCHLD may report several exits.
        while matches!(waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive)
        {
        }
    }
    Ok(())
}
