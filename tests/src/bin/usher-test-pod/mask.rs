//! Executes a command that sees other files in the place of some.
//!
//! The kernel allows to mount over most entries of `/proc/<pid>`; over its
//! links it does not, so whole directories are covered instead.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::bundle;

/// Covers each second path by the first, and executes.
pub(crate) fn run(masks: &Vec<(PathBuf, PathBuf)>, command: &[String]) -> Result<(), String> {
    bundle::isolate()?;
    for (source, target) in masks {
        bundle::bind(source, target)?;
    }
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("exec {program}: {error}"))
}
