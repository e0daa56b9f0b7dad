//! A machine for one test: pids, mounts, network and cgroups of its own.
//!
//! Some things are the whole machine's: loopback, as a pod with `hostNetwork`
//! sees it, and which number the next process gets
//! (`/proc/sys/kernel/ns_last_pid`,
//! [proc_sys_kernel(5)](https://man7.org/linux/man-pages/man5/proc_sys_kernel.5.html)).
//! A test that needs them runs again, alone, as a child in new pid, mount and
//! network namespaces, in which the agent sees nothing else. It ends with the
//! test that started it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::synthetic::{layout, program};

/// Tells a test that it is in there.
const MARK: &str = "USHER_TEST_MACHINE";

static MACHINES: AtomicU32 = AtomicU32::new(0);

/// Whether this process runs in a machine of its own.
pub fn is_own() -> bool {
    std::env::var_os(MARK).is_some()
}

/// True in a machine of its own. Elsewhere it runs the test of this name
/// (without the program's) in one, and is false: the caller has nothing left
/// to do.
///
/// # Panics
///
/// When the test fails there.
pub fn entered(test: &str) -> bool {
    if is_own() {
        return true;
    }
    layout::sweep();
    let machine = Machine::new();
    let places =
        serde_json::to_string(&(&machine.cgroup, &machine.mount)).expect("paths are UTF-8");
    let output = Command::new(program::path())
        .arg("machine")
        .arg(places)
        .arg(std::env::current_exe().expect("proc is mounted"))
        .args(["--exact", test, "--nocapture"])
        .env(MARK, "1")
        .env("TMPDIR", &machine.scratch)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    drop(machine);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        // A name that no test has would be a success, too.
        output.status.success() && said.contains("1 passed"),
        "{test} in a machine of its own: {}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// What a machine has of the real one. Removed on drop.
struct Machine {
    mount: PathBuf,
    cgroup: PathBuf,
    scratch: PathBuf,
}

impl Machine {
    fn new() -> Self {
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
        // What cannot be removed now, the next run sweeps.
        drop(std::fs::remove_dir_all(&self.scratch));
    }
}
