//! The creation of a container: its first process, then its init process.
//!
//! The order is runc's. The `stage` process puts itself into the cgroup, creates
//! the pid namespace, starts `init` in it and exits after a moment, so that the
//! first pid in the cgroup is not the container's. `init` is
//! pid 1; it creates the mount namespace, mounts, changes its root with
//! `pivot_root(".", ".")`
//! ([pivot_root(2)](https://man7.org/linux/man-pages/man2/pivot_root.2.html))
//! and executes the program. On a node with bundles `stage` creates the bundle
//! first, and `init` waits for its start before it executes.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use fork::Fork;
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Gid, Uid, dup2_stdout, execve, setgroups, setresgid, setresuid};
use usher_tests::synthetic::wire::{Order, Pids, Root};

use crate::{container::bundle, container::task, say};

/// The last pid that the kernel has assigned.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// The first process in the container's cgroup.
pub(crate) fn stage(order: &Order) -> Result<(), String> {
    if let Some(task) = &order.task {
        task::make(order, task)?;
        bundle::make_cgroups(order)?;
    }
    join_cgroup(order)?;
    match order.pids {
        Pids::Own => unshare(CloneFlags::CLONE_NEWPID)
            .map_err(|error| format!("unshare(CLONE_NEWPID): {error}"))?,
        Pids::Of(pid) => join(&open(pid, "pid")?, CloneFlags::CLONE_NEWPID)?,
        Pids::Host => {}
    }
    std::thread::sleep(order.pace.stage);
    if let Some(pid) = order.pid {
        // The file applies to the pid namespace of the writer.
        write(Path::new(LAST_PID), &(pid - 1).to_string())?;
    }
    // The child is not waited for: when this process exits, the shim becomes its parent. As with runc, the child
    // executes nothing before the container's program.
    match fork::fork() {
        Ok(Fork::Child) => init(order),
        Ok(Fork::Parent(_)) => Ok(()),
        Err(error) => Err(format!("fork: {error}")),
    }
}

/// Pid 1 of the container, up to its execve.
fn init(order: &Order) -> Result<(), String> {
    let term = block_term()?;
    // The mounted /proc is still the test's, so the link is the pid there.
    let pid = std::fs::read_link("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
    say(&format!("init {}", pid.display()));
    bundle::isolate()?;
    // Afterwards there is no /proc.
    let users = order.users.map(|pid| open(pid, "user")).transpose()?;
    let entered = order
        .enters_network_of
        .map(|pid| open(pid, "net"))
        .transpose()?;
    let root = bundle::root(&order.bundle);
    let fifo = order.task.as_ref().map(task::open_fifo).transpose()?;
    bundle::furnish(&root, order)?;
    enter(&root)?;
    if let Some(network) = entered {
        // A descriptor that a sidecar does not need.
        dup2_stdout(network).map_err(|error| format!("dup2: {error}"))?;
    }
    // Last, because in this namespace the process has no permissions on the node.
    if let Some(users) = &users {
        become_root_of(users)?;
    }
    if let Some(user) = order.user {
        become_user(user)?;
    }
    end_on(term);
    if let Some(fifo) = &fifo {
        say("waits");
        task::wait_at(fifo)?;
    }
    std::thread::sleep(order.pace.exec);
    execute(order)
}

/// Blocks it until a thread waits for it. That thread must not start before the process has entered its namespaces.
fn block_term() -> Result<SigSet, String> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals
        .thread_block()
        .map_err(|error| format!("sigmask: {error}"))?;
    Ok(signals)
}

/// A runtime's init process is a Go program, which exits with 2 on a SIGTERM
/// before its execve, even while that is held.
fn end_on(signals: SigSet) {
    std::thread::spawn(move || {
        if signals.wait().is_ok() {
            exit_with(2);
        }
    });
}

#[expect(
    clippy::exit,
    reason = "the other thread is in a system call that never returns"
)]
fn exit_with(code: i32) -> ! {
    std::process::exit(code)
}

/// Without `std`, which would unblock signals before the call.
fn execute(order: &Order) -> Result<(), String> {
    let entry = order
        .task
        .as_ref()
        .map(|task| task.entry)
        .unwrap_or_default();
    let json = serde_json::to_string(&order.program).map_err(|error| format!("order: {error}"))?;
    let arguments = [entry.path().to_owned(), "run".to_owned(), json];
    let variables = order.env.iter();
    let variables = variables.map(|(name, value)| format!("{name}={value}"));
    let (arguments, variables) = (strings(arguments)?, strings(variables)?);
    let path = arguments.first().ok_or("no program")?;
    let Err(error) = execve(path, &arguments, &variables);
    let root = order.task.as_ref().map(|task| task.shape.root);
    if root == Some(Root::Unreadable) {
        exit_with(error as i32);
    }
    Err(format!("exec {}: {error}", entry.path()))
}

fn strings(words: impl IntoIterator<Item = String>) -> Result<Vec<CString>, String> {
    let words = words.into_iter().map(CString::new);
    words
        .collect::<Result<_, _>>()
        .map_err(|error| format!("argument: {error}"))
}

/// Puts this process into the container's cgroup.
pub(crate) fn join_cgroup(order: &Order) -> Result<(), String> {
    let directory = order.subgroup.as_deref().unwrap_or_default();
    write(&order.cgroup.join(directory).join("cgroup.procs"), "0")
}

/// Becomes the root of a user namespace.
pub(crate) fn become_root_of(users: &File) -> Result<(), String> {
    join(users, CloneFlags::CLONE_NEWUSER)?;
    become_user(0)
}

pub(crate) fn become_user(id: u32) -> Result<(), String> {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    setgroups(&[])
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(user, user, user))
        .map_err(|error| format!("user {id}: {error}"))
}

pub(crate) fn open(pid: i32, namespace: &str) -> Result<File, String> {
    let path = format!("/proc/{pid}/ns/{namespace}");
    File::open(&path).map_err(|error| format!("open {path}: {error}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process has one thread and becomes the container"
)]
pub(crate) fn join(namespace: &File, kind: CloneFlags) -> Result<(), String> {
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
