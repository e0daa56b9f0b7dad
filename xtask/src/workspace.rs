//! Places of this repository, and commands that run there.

use std::{
    env,
    ffi::OsStr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use usher_cluster::programs;

pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A path for messages: from the top of the repository, if it is there.
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

/// Runs a command in the foreground.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    run_by(command, |command| command.status().map(Some))
}

/// Runs a command and kills its process group after `limit`: one test that hangs must not take the whole time of a
/// pipeline. Only for work of [`crate::supervisor`], which kills the other process groups of the session.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Result<()> {
    run_by(command, |command| {
        let mut child = command.process_group(0).spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        let end = Instant::now() + limit;
        loop {
            match child.try_wait()? {
                None if Instant::now() < end => thread::sleep(POLL),
                None => {
                    killpg(group, Signal::SIGKILL)?;
                    child.wait()?;
                    return Ok(None);
                }
                ended => return Ok(ended),
            }
        }
    })
    .with_context(|| format!("within {} minutes", limit.as_secs() / 60))
}

const POLL: Duration = Duration::from_millis(100);

fn run_by(
    command: &mut Command,
    run: impl FnOnce(&mut Command) -> std::io::Result<Option<ExitStatus>>,
) -> Result<()> {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .display()
        .to_string();
    let words = command
        .get_args()
        .fold(program, |line, word| format!("{line} {}", word.display()));
    match run(command).with_context(|| format!("run {words}"))? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{words}: {status}"),
        None => bail!("{words}: killed after its time limit; the last test in its output hangs"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

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

    #[test]
    fn command_that_hangs_is_killed() {
        let cat = || Command::new("/bin/cat");
        let mut hanging = cat();
        let (input, kept) = std::io::pipe().unwrap();
        let error = run_within(Duration::ZERO, hanging.stdin(input)).unwrap_err();
        assert!(format!("{error:#}").contains("time limit"), "{error:#}");
        drop(kept);
        // Its own child would keep the pipe open.
        let (input, kept) = std::io::pipe().unwrap();
        let (mut printed, output) = std::io::pipe().unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "cat; true"]).stdin(input).stdout(output);
        run_within(Duration::ZERO, &mut shell).unwrap_err();
        drop(shell);
        assert_eq!(printed.read(&mut [0]).unwrap(), 0);
        drop(kept);
        let (input, kept) = std::io::pipe().unwrap();
        drop(kept);
        run_within(Duration::from_secs(60), cat().stdin(input)).unwrap();
    }
}
