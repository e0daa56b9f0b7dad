//! Traffic in a pod's network namespace, and programs that run alongside a test.

use std::{
    fs::File,
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use nix::{
    sched::{CloneFlags, setns},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use usher_tests::synthetic::Pod;

/// Runs a function on a separate thread in the pod's network namespace. Its sockets stay there.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is what talks in the pod"
)]
pub(crate) fn inside<T: Send>(pod: &Pod, act: impl FnOnce() -> T + Send) -> T {
    let network = File::open(pod.network_path()).unwrap();
    let body = || {
        setns(network, CloneFlags::CLONE_NEWNET).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(body).join().unwrap())
}

/// A program that runs alongside the test, killed on drop.
pub(crate) struct Beside(pub(crate) Child);

impl Beside {
    pub(crate) fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }

    /// Sends a signal and waits for the exit: the exit code and the standard error.
    pub(crate) fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
        self.wait()
    }

    /// Waits for the exit.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        let mut errors = self.0.stderr.take().unwrap();
        errors.read_to_string(&mut stderr).unwrap();
        (self.0.wait().unwrap().code(), stderr)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Whether a file contains these bytes.
pub(crate) fn has(file: &Path, bytes: &[u8]) -> bool {
    let content = std::fs::read(file).unwrap_or_default();
    content.windows(bytes.len()).any(|part| part == bytes)
}
