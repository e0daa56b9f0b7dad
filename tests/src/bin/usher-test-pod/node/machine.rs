//! A machine for one test: see `usher_tests::synthetic::machine`.
//!
//! Two processes: one creates the namespaces and is outside of the new pid
//! namespace, the other is its pid 1, mounts `/proc` and runs the command.
//! Each exits with its parent
//! ([PR_SET_PDEATHSIG](https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html)),
//! and the kernel kills all others with pid 1.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, wait};

use crate::{container::bundle, pod::loopback};

/// Creates the machine, with one cgroup mounted in place of the whole
/// tree, and runs the command in it.
pub(crate) fn run(places: &(PathBuf, PathBuf), command: &[String]) -> Result<(), String> {
    end_with_the_parent()?;
    let (cgroup, cgroups) = places;
    bundle::isolate()?;
    bundle::bind(cgroup, cgroups)?;
    unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("unshare: {error}"))?;
    loopback::up()?;
    let mut first = Command::new("/proc/self/exe");
    let mut first = spawn(first.args(["machine-init", "[]"]).args(command))?;
    succeeded(first.wait().map_err(|error| format!("wait: {error}"))?)
}

/// Pid 1 of the machine.
pub(crate) fn init(command: &[String]) -> Result<(), String> {
    end_with_the_parent()?;
    let proc = Path::new("/proc");
    mount(
        Some("proc"),
        proc,
        Some("proc"),
        MsFlags::empty(),
        None::<&str>,
    )
    .map_err(|error| format!("mount /proc: {error}"))?;
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let child = spawn(Command::new(program).args(arguments))?;
    let pid = i32::try_from(child.id()).expect("pids are small");
    // Pid 1 is also the parent of orphaned processes.
    loop {
        match wait().map_err(|error| format!("wait: {error}"))? {
            WaitStatus::Exited(ended, 0) if ended.as_raw() == pid => return Ok(()),
            status if status.pid().is_some_and(|ended| ended.as_raw() == pid) => {
                return Err(format!("{program}: {status:?}"));
            }
            _ => {}
        }
    }
}

fn end_with_the_parent() -> Result<(), String> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| format!("parent's death: {error}"))
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    command
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))
}

fn succeeded(status: ExitStatus) -> Result<(), String> {
    if status.success() {
        return Ok(());
    }
    Err(format!("the machine ended with {status}"))
}
