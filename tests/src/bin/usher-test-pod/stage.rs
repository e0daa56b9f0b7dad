//! How a container comes to be: its first process, then its init process.
//!
//! The order is runc's. The `stage` process puts itself into the cgroup, makes
//! the pid namespace, starts `init` in it and ends after a moment, so that the
//! first pid a watcher sees in the cgroup is not the container's. `init` is
//! pid 1; it makes the mount namespace, mounts, changes its root with
//! `pivot_root(".", ".")`
//! ([pivot_root(2)](https://man7.org/linux/man-pages/man2/pivot_root.2.html))
//! and executes the program.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, unshare};
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::Order;

use crate::{bundle, say};

/// The first process in the container's cgroup.
pub(crate) fn stage(order: &Order) -> Result<(), String> {
    let procs = order.cgroup.join("cgroup.procs");
    std::fs::write(&procs, "0").map_err(|error| format!("write {}: {error}", procs.display()))?;
    match order.join_pids {
        None => unshare(CloneFlags::CLONE_NEWPID)
            .map_err(|error| format!("unshare(CLONE_NEWPID): {error}"))?,
        Some(pid) => join_pids(pid)?,
    }
    std::thread::sleep(order.pace.stage);
    let json = serde_json::to_string(order).map_err(|error| format!("order: {error}"))?;
    // Not waited for: when this process ends, the shim is the parent.
    Command::new("/proc/self/exe")
        .arg("init")
        .arg(json)
        .spawn()
        .map(drop)
        .map_err(|error| format!("spawn init: {error}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process does nothing else, and its namespace is a pid namespace for children"
)]
fn join_pids(pid: i32) -> Result<(), String> {
    let path = format!("/proc/{pid}/ns/pid");
    let namespace = File::open(&path).map_err(|error| format!("open {path}: {error}"))?;
    nix::sched::setns(namespace, CloneFlags::CLONE_NEWPID)
        .map_err(|error| format!("setns {path}: {error}"))
}

/// Pid 1 of the container, up to its execve.
pub(crate) fn init(order: &Order) -> Result<(), String> {
    // The mounted /proc is still the test's, so the link is the pid there.
    let pid = std::fs::read_link("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
    say(&format!("init {}", pid.display()));
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("unshare(CLONE_NEWNS): {error}"))?;
    let root = bundle::root(&order.bundle);
    bundle::furnish(&root, order.termination_log.as_deref())?;
    enter(&root)?;
    std::thread::sleep(order.pace.exec);
    let json = serde_json::to_string(&order.program).map_err(|error| format!("order: {error}"))?;
    let error = Command::new(program::IN_CONTAINER)
        .arg("run")
        .arg(json)
        .exec();
    Err(format!("exec {}: {error}", program::IN_CONTAINER))
}

fn enter(root: &Path) -> Result<(), String> {
    std::env::set_current_dir(root).map_err(|error| format!("chdir: {error}"))?;
    nix::unistd::pivot_root(".", ".").map_err(|error| format!("pivot_root: {error}"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(|error| format!("umount old root: {error}"))?;
    std::env::set_current_dir("/").map_err(|error| format!("chdir: {error}"))
}
