//! The child process of a sidecar, as Envoy is pilot-agent's.
//!
//! Its standard input reports the exit of its parent, and it exits some time
//! later. As pid 1 of its container the parent would end it as well; with
//! shared pids it does not.

use std::io::Read;
use std::process::{ChildStdin, Command, ExitCode, Stdio};

use nix::sys::signal::SigSet;
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{Child, Program};

use crate::{BROKEN, name_process, say};

/// Starts it; it runs while the returned pipe is open.
pub(crate) fn start(child: &Child) -> Result<ChildStdin, String> {
    let json = serde_json::to_string(&Program::Proxy(child.clone())).expect("plain data");
    let mut process = Command::new(program::IN_CONTAINER)
        .arg("run")
        .arg(json)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("spawn {}: {error}", child.process))?;
    Ok(process.stdin.take().expect("piped above"))
}

pub(crate) fn run(child: &Child) -> ExitCode {
    name_process(&child.process);
    let signals = SigSet::all();
    if signals.thread_block().is_err() {
        return ExitCode::from(BROKEN);
    }
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            say(&format!("child-signalled {}", signal as i32));
        }
    });
    let mut rest = Vec::new();
    // An error has the same meaning.
    drop(std::io::stdin().read_to_end(&mut rest));
    std::thread::sleep(child.outlives);
    ExitCode::SUCCESS
}
