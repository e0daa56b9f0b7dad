//! The mount namespace of a node: see `usher_tests::synthetic`, bundles.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::container::bundle;

/// Creates the mount, reports it, and waits until another process holds it.
pub(crate) fn make(state: &Path) -> Result<(), String> {
    bundle::isolate()?;
    bundle::bind(state, state)?;
    propagate(state, MsFlags::MS_SHARED)?;
    std::io::stdout()
        .write_all(b"\n")
        .map_err(|error| format!("say that it is made: {error}"))?;
    let mut rest = Vec::new();
    std::io::stdin()
        .read_to_end(&mut rest)
        .map(drop)
        .map_err(|error| format!("wait: {error}"))
}

/// Executes a command in it, as the runtime does.
pub(crate) fn inside(namespace: &Path, command: &[String]) -> Result<(), String> {
    join(namespace)?;
    execute(command)
}

/// Executes a command in a namespace that receives its mounts.
pub(crate) fn beside(namespace: &Path, command: &[String]) -> Result<(), String> {
    join(namespace)?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("unshare(CLONE_NEWNS): {error}"))?;
    propagate(Path::new("/"), MsFlags::MS_REC | MsFlags::MS_SLAVE)?;
    execute(command)
}

fn propagate(path: &Path, flags: MsFlags) -> Result<(), String> {
    mount(None::<&str>, path, None::<&str>, flags, None::<&str>)
        .map_err(|error| format!("{flags:?} {}: {error}", path.display()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process has one thread and becomes another program there"
)]
fn join(namespace: &Path) -> Result<(), String> {
    let file =
        File::open(namespace).map_err(|error| format!("open {}: {error}", namespace.display()))?;
    setns(file, CloneFlags::CLONE_NEWNS).map_err(|error| format!("setns(CLONE_NEWNS): {error}"))
}

fn execute(command: &[String]) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("exec {program}: {error}"))
}
