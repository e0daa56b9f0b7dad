//! Executes a command that sees other files at some paths.
//!
//! The kernel permits mounts over most entries of `/proc/<pid>`, but not over its
//! links, so whole directories are covered.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use nix::mount::MsFlags;

use crate::container::bundle;

/// Covers the second path of each pair by the first, and executes the command.
pub(crate) fn run(masks: &Vec<(PathBuf, PathBuf)>, command: &[String]) -> Result<(), String> {
    // The agent receives the roots of containers that start later.
    bundle::unshare_mounts(MsFlags::MS_SLAVE)?;
    for (source, target) in masks {
        bundle::bind(source, target)?;
    }
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("exec {program}: {error}"))
}
