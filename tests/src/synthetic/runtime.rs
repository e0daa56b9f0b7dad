//! A stand-in for runc: its state directory, and commands with its command line. A command opens the state of its container
//! before it sends a signal, as runc does.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::synthetic::Pod;
use crate::wait::patience;

/// A process has no notification of its end for two waiters, so this is the polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// The directory in which the runtime keeps the state of its containers.
#[derive(Debug)]
pub struct StateDir(PathBuf);

/// A command of the runtime. It is killed on drop.
#[derive(Debug)]
pub struct Command(Child);

impl StateDir {
    pub fn below(directory: &Path) -> Self {
        let path = directory.join("runc");
        fs::create_dir_all(&path).expect("the directory is writable");
        Self(path)
    }

    pub fn flag(&self) -> String {
        format!("--runtime-state-dir=/nonexistent,{}", self.0.display())
    }

    /// Writes the state of a container's latest run.
    pub fn add(&self, pod: &Pod, container: &str) {
        let directory = self.0.join(pod.id(container));
        fs::create_dir_all(&directory).expect("the directory is writable");
        fs::write(directory.join("state.json"), "{}\n").expect("the directory is writable");
    }

    /// `runc kill ID SIGNAL`: opens the state, then sends the signal.
    pub fn kill(&self, pod: &Pod, container: &str, signal: &str) -> Command {
        let number = if signal == "KILL" { "9" } else { signal };
        let then = format!("kill -{number} {}", pod.pid(container));
        self.run(pod, container, &["kill", &pod.id(container), signal], &then)
    }

    /// `runc state ID`.
    pub fn query(&self, pod: &Pod, container: &str) -> Command {
        self.run(pod, container, &["state", &pod.id(container)], "true")
    }

    fn run(&self, pod: &Pod, container: &str, arguments: &[&str], then: &str) -> Command {
        let file = self.0.join(pod.id(container)).join("state.json");
        let mut child = std::process::Command::new("/bin/sh")
            .arg0("runc")
            .arg("-s")
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("/bin/sh runs");
        let script = format!("read line < {} && {then}\nexit\n", file.display());
        let mut stdin = child.stdin.take().expect("piped above");
        stdin
            .write_all(script.as_bytes())
            .expect("the shell reads its script");
        Command(child)
    }
}

impl Command {
    pub fn has_ended(&mut self) -> bool {
        self.0
            .try_wait()
            .expect("the child was not awaited")
            .is_some()
    }

    /// Waits for its end, which is a success.
    pub fn succeeds(mut self) {
        let deadline = Instant::now() + patience();
        loop {
            if let Some(status) = self.0.try_wait().expect("the child was not awaited") {
                assert!(status.success(), "{status}");
                return;
            }
            assert!(Instant::now() < deadline, "the command still waits");
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        // It may have ended; then both fail.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
