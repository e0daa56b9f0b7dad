//! The output for the user while the cluster works: one line per step, and a sign of life during long builds.
#![expect(
    clippy::print_stderr,
    reason = "progress is for the person at the terminal"
)]

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

/// The longest silence during a build.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
const TAIL_LINES: usize = 20;

/// Prefixes every line with the time since its creation.
#[derive(Debug, Clone)]
pub struct Progress {
    started: Instant,
}

impl Progress {
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a clock that starts is not a default value"
    )]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    pub fn step(&self, text: &str) {
        eprintln!("{:>7} ms  {text}", self.started.elapsed().as_millis());
    }
}

/// Prints a line that belongs to no step, such as the start of a long build.
pub fn say(text: &str) {
    eprintln!("{text}");
}

/// Runs a command until its exit with its output in `log`; prints every 15 s that it still runs. On failure the error has
/// the end of the log.
pub fn run_logged(what: &str, command: &mut Command, log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let also = file.try_clone().context("share the log file")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(also)
        .spawn()
        .with_context(|| format!("{what}: start {}", command.get_program().display()))?;
    let (sender, receiver) = mpsc::channel();
    let waiter = thread::spawn(move || sender.send(child.wait()));
    let started = Instant::now();
    let status = loop {
        match receiver.recv_timeout(SIGN_OF_LIFE) {
            Ok(status) => break status.with_context(|| format!("{what}: wait"))?,
            Err(RecvTimeoutError::Timeout) => {
                say(&format!("    {what}: {} s", started.elapsed().as_secs()));
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("{what}: the waiting thread ended without an answer")
            }
        }
    };
    ensure!(waiter.join().is_ok(), "{what}: the waiting thread panicked");
    if !status.success() {
        bail!(
            "{what}: {status}; the end of {}:\n{}",
            log.display(),
            tail(log)
        );
    }
    Ok(())
}

/// The last lines of a log file, for an error message.
#[must_use]
pub fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines[from..].join("\n")
}

/// Runs a command until its exit and returns its standard output; the error contains its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let line = || format!("{command:?}");
    let shown = line();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {shown}"))?;
    if !output.status.success() {
        bail!(
            "{shown}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{shown}: its output is not UTF-8"))
}
