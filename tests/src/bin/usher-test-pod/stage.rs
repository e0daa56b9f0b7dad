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
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use usher_tests::synthetic::program;
use usher_tests::synthetic::wire::{Order, Pids};

use crate::{bundle, say};

/// Which pid was the last one to be given to a process.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// The first process in the container's cgroup.
pub(crate) fn stage(order: &Order) -> Result<(), String> {
    let directory = order.subgroup.as_deref().unwrap_or_default();
    write(&order.cgroup.join(directory).join("cgroup.procs"), "0")?;
    match order.pids {
        Pids::Own => unshare(CloneFlags::CLONE_NEWPID)
            .map_err(|error| format!("unshare(CLONE_NEWPID): {error}"))?,
        Pids::Of(pid) => join(&open(pid, "pid")?, CloneFlags::CLONE_NEWPID)?,
        Pids::Host => {}
    }
    std::thread::sleep(order.pace.stage);
    if let Some(pid) = order.pid {
        // The file is that of the namespace in which the writer is numbered.
        write(Path::new(LAST_PID), &(pid - 1).to_string())?;
    }
    let json = serde_json::to_string(order).map_err(|error| format!("order: {error}"))?;
    // Not waited for: when this process ends, the shim is the parent.
    Command::new("/proc/self/exe")
        .arg("init")
        .arg(json)
        .spawn()
        .map(drop)
        .map_err(|error| format!("spawn init: {error}"))
}

/// Pid 1 of the container, up to its execve.
pub(crate) fn init(order: &Order) -> Result<(), String> {
    // The mounted /proc is still the test's, so the link is the pid there.
    let pid = std::fs::read_link("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
    say(&format!("init {}", pid.display()));
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("unshare(CLONE_NEWNS): {error}"))?;
    // Afterwards there is no /proc.
    let users = order.users.map(|pid| open(pid, "user")).transpose()?;
    let visited = order.visits.map(|pid| open(pid, "net")).transpose()?;
    let root = bundle::root(&order.bundle);
    bundle::furnish(&root, order.termination_log.as_deref())?;
    enter(&root)?;
    std::thread::sleep(order.pace.exec);
    let json = serde_json::to_string(&order.program).map_err(|error| format!("order: {error}"))?;
    let mut program = Command::new(program::IN_CONTAINER);
    program.arg("run").arg(json).env_clear();
    program.envs(order.env.iter().map(|(name, value)| (name, value)));
    if let Some(network) = visited {
        // The one descriptor that a sidecar has no other use for.
        program.stdout(network);
    }
    if let Some(users) = &users {
        become_root_of(users)?;
    }
    if let Some(user) = order.user {
        become_user(user)?;
    }
    let error = program.exec();
    Err(format!("exec {}: {error}", program::IN_CONTAINER))
}

/// Last of all, since in there this process may do nothing on the node.
fn become_root_of(users: &File) -> Result<(), String> {
    join(users, CloneFlags::CLONE_NEWUSER)?;
    become_user(0)
}

fn become_user(id: u32) -> Result<(), String> {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    setgroups(&[])
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(user, user, user))
        .map_err(|error| format!("user {id}: {error}"))
}

fn open(pid: i32, namespace: &str) -> Result<File, String> {
    let path = format!("/proc/{pid}/ns/{namespace}");
    File::open(&path).map_err(|error| format!("open {path}: {error}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process has one thread and becomes the container"
)]
fn join(namespace: &File, kind: CloneFlags) -> Result<(), String> {
    setns(namespace, kind).map_err(|error| format!("setns {kind:?}: {error}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("write {}: {error}", path.display()))
}

fn enter(root: &Path) -> Result<(), String> {
    std::env::set_current_dir(root).map_err(|error| format!("chdir: {error}"))?;
    nix::unistd::pivot_root(".", ".").map_err(|error| format!("pivot_root: {error}"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(|error| format!("umount old root: {error}"))?;
    std::env::set_current_dir("/").map_err(|error| format!("chdir: {error}"))
}
