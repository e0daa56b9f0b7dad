//! The processes of synthetic pods, in one binary.
//!
//! `usher-test-pod ROLE JSON [COMMAND...]`; only `usher_tests::synthetic` starts
//! it:
//!
//! | role | process |
//! | --- | --- |
//! | `shim` | the parent of all containers of a pod |
//! | `stage` | the short-lived first process in a container's cgroup, and the init process until its execve |
//! | `run` | the container's program, or one that it started |
//! | `enter` | runs a program in a container |
//! | `script` | the interpreter of a script that is a container's program |
//! | `nothing` | exits at once |
//! | `child` | the app below a wrapper |
//! | `splinter` | one of many processes that an app leaves behind |
//! | `users` | holds a pod's user namespace |
//! | `mask` | not in a pod: covers files, then executes a command |
//! | `mounts`, `inside`, `beside` | not in a pod: create and enter the node's mount namespace |
//! | `machine`, `machine-init` | not in a pod: execute a command in a machine of its own |

mod container;
mod node;
mod pod;
mod program;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use nix::sys::signal::SigSet;
use serde::de::DeserializeOwned;
use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::wire::Program;

use container::{enter, stage};
use node::{machine, mask, mounts};
use pod::{network, route, shim};
use program::{app, client, execs, holding, mischief, proxy, shell, sidecar};

/// The exit code of a process with a failed setup.
const BROKEN: u8 = 125;
/// The first instruction of this process, in nanoseconds of `CLOCK_MONOTONIC`.
static BEGAN: OnceLock<u64> = OnceLock::new();

fn main() -> ExitCode {
    BEGAN.get_or_init(monotonic_ns);
    let mut arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|role| role == "script") {
        // The kernel inserted the interpreter's argument and the script's path before the rest.
        arguments.drain(1..arguments.len().min(3));
    }
    let [_, role, json, command @ ..] = arguments.as_slice() else {
        say("failed usage: usher-test-pod ROLE JSON [COMMAND...]");
        return ExitCode::from(BROKEN);
    };
    match role.as_str() {
        "shim" => ended(shim::run(&order(json))),
        "stage" => ended(stage::stage(&order(json))),
        "enter" => ended(enter::run(&order(json))),
        "run" => execute(order(json)),
        "nothing" => ExitCode::SUCCESS,
        "mounts" => ended(mounts::make(&order::<PathBuf>(json))),
        "inside" => ended(mounts::inside(&order::<PathBuf>(json), command)),
        "beside" => ended(mounts::beside(&order::<PathBuf>(json), command)),
        "users" => network::users(),
        "machine" => ended(machine::run(&order(json), command)),
        "machine-init" => ended(machine::init(command)),
        "child" => app::app(order(json)),
        "splinter" => mischief::splinter(order(json)),
        "mask" => ended(mask::run(&order(json), command)),
        other => {
            say(&format!("failed unknown role {other}"));
            ExitCode::from(BROKEN)
        }
    }
}

/// A container's program, or a part of one. It prints `running` when signals and
/// commands reach it.
fn execute(program: Program) -> ExitCode {
    // The init process waited with signals blocked, and its mask is inherited.
    SigSet::empty().thread_set_mask().ok();
    if matches!(
        program,
        Program::Pause
            | Program::App(_)
            | Program::Capture(_)
            | Program::Wrapper { .. }
            | Program::Execs(_)
    ) {
        say_running();
    }
    match program {
        Program::Pause => app::pause(),
        Program::App(end) => app::app(end),
        Program::Execs(times) => execs::run(times),
        Program::Client(client) => client::run(&client),
        Program::Holding(holding) => holding::run(&holding),
        Program::Mischief(mischief) => mischief::run(&mischief),
        Program::Capture(rules) => route::capture(&rules),
        Program::Wrapper { port, app } => app::wrapper(port, app),
        Program::Sidecar(sidecar) => sidecar::run(sidecar),
        Program::Shell(sidecar) => shell::run(sidecar),
        Program::Proxy(child) => proxy::run(&child),
    }
}

/// Sets the name of this process in `/proc/<pid>/comm`.
fn name_process(name: &str) {
    let name = std::ffi::CString::new(name).expect("names have no zero bytes");
    // A failure does not matter.
    nix::sys::prctl::set_name(&name).ok();
}

/// Prints that the program runs, with its start time.
fn say_running() {
    say(&format!("running {}", BEGAN.get_or_init(monotonic_ns)));
}

/// Prints a line for the shim: one write, so that lines never mix.
fn say(line: &str) {
    // If this fails, the shim is gone, and this process will be soon.
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
