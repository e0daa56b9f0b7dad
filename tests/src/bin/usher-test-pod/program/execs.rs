//! A program that executes another one repeatedly, as shells do.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use usher_tests::synthetic::program;

use crate::{BROKEN, say};

/// Runs at least this number of programs, one after the other, until it is terminated.
pub(crate) fn run(at_least: u32) -> ExitCode {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        // The end of input has the same effect.
        drop(std::io::stdin().lines().next());
        stopped.store(true, Ordering::Relaxed);
    });
    let mut count = 0;
    while count < at_least || !stop.load(Ordering::Relaxed) {
        let mut command = Command::new(program::IN_CONTAINER);
        match command.args(["nothing", "[]"]).status() {
            Ok(status) => {
                // No other process should send a signal.
                if let Some(signal) = status.signal() {
                    say(&format!("struck {signal}"));
                }
            }
            Err(error) => {
                say(&format!("failed execution: {error}"));
                return ExitCode::from(BROKEN);
            }
        }
        count += 1;
    }
    say(&format!("executed {count}"));
    ExitCode::SUCCESS
}
