//! How real sidecars end: the exit code, and the time from a signal or a request to the end of the process.
//!
//! ```text
//! USHER_PROGRAMS=/path/to/programs cargo bench -p usher-tests --bench terminations -- [NAME ...]
//! ```
//!
//! The folder has the programs by the names in `program.rs`; those that are absent are left out. Each is the first process of a
//! PID namespace, as in a container: without a handler for a signal, a program ends there with another exit code than elsewhere.
//! It listens on the loopback of a network namespace of its own. Needs root, and the programs `unshare`, `nsenter`, `ip` and `curl`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it prints a table, and a measurement that fails may panic"
)]

mod program;
mod run;

use std::{env, path::PathBuf, process::ExitCode};

use self::{
    program::{Program, programs},
    run::{End, Run},
};

/// Runs of each action in each state.
const RUNS: usize = 3;

/// The state of the sidecar when it is terminated.
#[derive(Debug, Clone, Copy)]
enum State {
    /// It is just old enough to receive signals from usher.
    Starts,
    /// It listens, and has stopped computing.
    Idle,
    /// Clients hold connections to its port.
    Busy,
}

fn main() -> ExitCode {
    let Some(folder) = env::var_os("USHER_PROGRAMS").map(PathBuf::from) else {
        println!("left out: USHER_PROGRAMS names no folder with programs");
        return ExitCode::SUCCESS;
    };
    let wanted: Vec<String> = env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    println!(
        "| program | version | step | at start | idle | busy |\n| --- | --- | --- | --- | --- | --- |"
    );
    for program in programs() {
        let is_wanted = wanted.is_empty() || wanted.iter().any(|name| name == program.name);
        let path = folder.join(program.file);
        if is_wanted && path.exists() {
            measure(&program, &path);
        }
    }
    ExitCode::SUCCESS
}

fn measure(program: &Program, path: &std::path::Path) {
    for step in &program.steps {
        let cells = [State::Starts, State::Idle, State::Busy].map(|state| {
            let ends: Vec<End> = (0..RUNS)
                .map(|_run| {
                    let mut run = Run::start(program, step, path);
                    match state {
                        State::Starts => run.wait_signal_age(),
                        State::Idle => run.wait_idle(program.port),
                        State::Busy => run.keep_busy(program.port),
                    }
                    run.end(step)
                })
                .collect();
            cell(&ends)
        });
        let (name, version) = (program.name, program.version);
        println!("| {name} | {version} | {step} | {} |", cells.join(" | "));
    }
}

/// Exit codes, and the shortest and the longest time.
fn cell(ends: &[End]) -> String {
    let mut codes: Vec<String> = ends.iter().map(|end| end.code.clone()).collect();
    codes.dedup();
    let times = ends.iter().map(|end| end.took.as_millis());
    let (least, most) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    format!("{}, {least} to {most} ms", codes.join("/"))
}
