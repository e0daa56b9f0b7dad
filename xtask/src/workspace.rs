//! Where things are in this repository, and cargo run from here.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use usher_cluster::programs;

/// The top of the repository.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Where cargo builds this workspace.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A path as a person wants to read it: from the top of the repository, where it is below that.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// cargo at the top of the repository.
pub(crate) fn cargo<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut cargo = programs::cargo();
    cargo.current_dir(root()).args(args);
    cargo
}

/// Runs a command in the foreground, with its output for the person at the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .display()
        .to_string();
    let words = command
        .get_args()
        .fold(program, |line, word| format!("{line} {}", word.display()));
    let status = command.status().with_context(|| format!("start {words}"))?;
    if !status.success() {
        bail!("{words}: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_from_the_top() {
        assert_eq!(
            shown(&root().join("target/image/a.tar")),
            "target/image/a.tar"
        );
        assert_eq!(shown(Path::new("/elsewhere/a.tar")), "/elsewhere/a.tar");
    }

    #[test]
    fn failed_command_is_named_with_its_arguments() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "sh -c exit 3: exit status: 3");
    }
}
