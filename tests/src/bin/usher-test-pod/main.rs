//! The processes of synthetic pods, in one binary.
//!
//! `usher-test-pod ROLE JSON [COMMAND...]`; started by `usher_tests::synthetic`, never by
//! hand:
//!
//! | role | it is |
//! | --- | --- |
//! | `shim` | the parent of all containers of a pod |
//! | `stage` | the short-lived first process in a container's cgroup |
//! | `init` | the container's init process until its execve |
//! | `run` | the container's program, or one that it started |
//! | `child` | the app below a wrapper |
//! | `users` | holds a pod's user namespace |
//! | `mask` | no process of a pod: covers files, then executes a command |
//! | `machine`, `machine-init` | no process of a pod: executes a command apart |

mod announce;
mod app;
mod bundle;
mod client;
mod lives;
mod loopback;
mod machine;
mod mask;
mod network;
mod proxy;
mod route;
mod shell;
mod shim;
mod sidecar;
mod stage;

use std::io::Write;
use std::process::ExitCode;

use serde::de::DeserializeOwned;
use usher_tests::synthetic::wire::Program;

/// Exit code of a process whose own set-up failed.
const BROKEN: u8 = 125;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, role, json, command @ ..] = arguments.as_slice() else {
        say("failed usage: usher-test-pod ROLE JSON [COMMAND...]");
        return ExitCode::from(BROKEN);
    };
    match role.as_str() {
        "shim" => ended(shim::run(&order(json))),
        "stage" => ended(stage::stage(&order(json))),
        "init" => ended(stage::init(&order(json))),
        "run" => execute(order(json)),
        "users" => network::users(),
        "machine" => ended(machine::run(&order(json), command)),
        "machine-init" => ended(machine::init(command)),
        "child" => app::app(order(json)),
        "mask" => ended(mask::run(&order(json), command)),
        other => {
            say(&format!("failed unknown role {other}"));
            ExitCode::from(BROKEN)
        }
    }
}

/// A container's program, or a part of one. It says `running` when signals and
/// orders reach it.
fn execute(program: Program) -> ExitCode {
    if matches!(
        program,
        Program::Pause | Program::App(_) | Program::Capture(_) | Program::Wrapper { .. }
    ) {
        say("running");
    }
    match program {
        Program::Pause => app::pause(),
        Program::App(end) => app::app(end),
        Program::Client(client) => client::run(&client),
        Program::Capture(rules) => route::capture(&rules),
        Program::Wrapper { port, app } => app::wrapper(port, app),
        Program::Sidecar(sidecar) => sidecar::run(sidecar),
        Program::Shell(sidecar) => shell::run(sidecar),
        Program::Proxy(child) => proxy::run(&child),
    }
}

/// Gives this process a name that others see in `/proc/<pid>/comm`.
fn name_process(name: &str) {
    let name = std::ffi::CString::new(name).expect("names have no zero bytes");
    // A name is never needed to live.
    nix::sys::prctl::set_name(&name).ok();
}

/// Says a line to the shim: one write, so that lines never mix.
fn say(line: &str) {
    // The shim is gone when this fails, and this process soon will be.
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}

fn order<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).expect("the library wrote this JSON from the same type")
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&format!("failed {reason}"));
            ExitCode::from(BROKEN)
        }
    }
}
