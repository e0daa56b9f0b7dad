//! A shell that is pid 1 of a container and waits for the last of its commands.
//!
//! It has no handlers, and to pid 1 of a namespace the kernel does not deliver
//! a signal with the default action
//! ([pid_namespaces(7)](https://man7.org/linux/man-pages/man7/pid_namespaces.7.html)).

use std::process::{Command, ExitCode};

use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{Program, Sidecar};

use crate::{BROKEN, name_process, say};

/// Runs the sidecar, and exits with its code.
pub(crate) fn run(sidecar: Sidecar) -> ExitCode {
    name_process("sh");
    let json = serde_json::to_string(&Program::Sidecar(sidecar)).expect("plain data");
    let mut command = Command::new(program::IN_CONTAINER);
    let child = command.arg("run").arg(json).spawn();
    match child.and_then(|mut child| child.wait()) {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            ExitCode::from(code.unwrap_or(BROKEN))
        }
        Err(error) => {
            say(&format!("failed the shell's command: {error}"));
            ExitCode::from(BROKEN)
        }
    }
}
