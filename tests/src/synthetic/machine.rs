//! A machine for one test: pids, mounts, network and cgroups of its own.
//!
//! Some resources belong to the whole machine: loopback, as a pod with `hostNetwork`
//! sees it, and the number of the next process
//! (`/proc/sys/kernel/ns_last_pid`,
//! [proc_sys_kernel(5)](https://man7.org/linux/man-pages/man5/proc_sys_kernel.5.html)).
//! A test that needs them runs again, alone, as a child in new pid, mount and
//! network namespaces, in which the agent sees nothing else. The child exits with the
//! test that started it.

mod mark;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use mark::MARK;

use crate::synthetic::{layout, program};

pub use mark::is_own;

static MACHINES: AtomicU32 = AtomicU32::new(0);

/// Whether this process runs in a machine of its own. Elsewhere it runs the test of this name
/// (without the program's name) in such a machine and returns false: the caller must then return.
///
/// # Panics
///
/// If the test fails there.
pub fn entered(test: &str) -> bool {
    if is_own() {
        return true;
    }
    let machine = Machine::new();
    let output = machine.run(test).output().expect("the program starts");
    drop(machine);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        // A name without a test would be a success, too.
        output.status.success() && stdout.contains("1 passed"),
        "{test} in a machine of its own: {}\n{stdout}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// The same for a long test that is ignored elsewhere: its output is printed at once.
///
/// # Panics
///
/// If the test fails there.
#[expect(clippy::print_stdout, reason = "a person waits for it for minutes")]
pub fn entered_openly(test: &str) -> bool {
    if is_own() {
        return true;
    }
    let machine = Machine::new();
    let mut run = machine.run(test);
    run.arg("--include-ignored").stdout(Stdio::piped());
    let mut child = run.spawn().expect("the program starts");
    let stdout = child.stdout.take().expect("piped above");
    let passed = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .inspect(|line| println!("{line}"))
        // A name without a test would be a success, too. The whole output is read.
        .filter(|line| line.contains("1 passed"))
        .count()
        > 0;
    let status = child.wait().expect("it is our child");
    drop(machine);
    assert!(
        status.success() && passed,
        "{test} in a machine of its own: {status}"
    );
    false
}

/// The directories of a machine, removed on drop.
struct Machine {
    mount: PathBuf,
    cgroup: PathBuf,
    scratch: PathBuf,
}

impl Machine {
    /// A command that runs a test of this program in it.
    fn run(&self, test: &str) -> Command {
        let places = serde_json::to_string(&(&self.cgroup, &self.mount)).expect("paths are UTF-8");
        let mut command = Command::new(program::path());
        command
            .arg("machine")
            .arg(places)
            .arg(std::env::current_exe().expect("proc is mounted"))
            .args(["--exact", test, "--nocapture"])
            .env(MARK, "1")
            .env("TMPDIR", &self.scratch)
            .stdin(Stdio::null());
        command
    }

    fn new() -> Self {
        layout::sweep();
        let name = layout::name(&format!("m{}", MACHINES.fetch_add(1, Ordering::Relaxed)));
        let mount = layout::cgroup2_mount().expect("cgroup2 is mounted");
        let machine = Self {
            cgroup: mount.join(&name),
            scratch: layout::scratch_parent().join(name),
            mount,
        };
        std::fs::create_dir(&machine.cgroup).expect("root may make cgroups");
        std::fs::create_dir(&machine.scratch).expect("/tmp is writable");
        machine
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        layout::remove_cgroup(&self.cgroup);
        // The next run removes what is left.
        drop(std::fs::remove_dir_all(&self.scratch));
    }
}
