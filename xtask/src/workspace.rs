//! Paths of this repository, and commands that run there.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};
use usher_cluster::{programs, progress::output};

pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

pub(crate) fn target_dir() -> PathBuf {
    // The commands of cargo run at the top.
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A path for messages: from the top of the repository, if it is there.
pub(crate) fn shown(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.display().to_string()
}

/// Every file that git tracks or would add, relative to `top`.
pub(crate) fn files(top: &Path) -> Result<Vec<String>> {
    let listed = output(
        Command::new("git")
            .current_dir(top)
            .args(["ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"]),
    )
    .context("list the files of the repository")?;
    let files = listed.split_terminator('\0').map(str::to_owned);
    // The deletion of a file may not be committed yet.
    Ok(files.filter(|path| top.join(path).is_file()).collect())
}

/// The packages that cargo resolved.
pub(crate) fn metadata() -> Result<Metadata> {
    MetadataCommand::new()
        .current_dir(root())
        .other_options(["--locked".to_owned()])
        .exec()
        .context("read the packages from cargo")
}

/// Name and version.
pub(crate) type PackageId = (String, String);

/// The packages that cargo links for a target into one of these packages. Procedural macros are excluded: they run in
/// the compiler.
pub(crate) fn linked(packages: &[&str], target: &str) -> Result<BTreeSet<PackageId>> {
    let mut tree = cargo(["tree", "--locked", "--target", target, "--prefix", "none"]);
    tree.args(["--edges", "normal,no-proc-macro", "--format", "{p}"]);
    tree.args(packages.iter().flat_map(|package| ["--package", package]));
    let id = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some((name.to_owned(), version.strip_prefix('v')?.to_owned()))
    };
    Ok(output(&mut tree)?.lines().filter_map(id).collect())
}

/// cargo at the top of the repository.
pub(crate) fn cargo<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut cargo = programs::cargo();
    cargo.current_dir(root()).args(args);
    cargo
}

/// Runs a command in the foreground.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or_default().display();
    let words = command.get_args().fold(program.to_string(), |line, word| {
        format!("{line} {}", word.display())
    });
    let status = command.status().with_context(|| format!("run {words}"))?;
    ensure!(status.success(), "{words}: {status}");
    Ok(())
}

/// Runs a command. Returns all its output, which is also the error.
pub(crate) fn report(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let done = command.output().with_context(|| format!("start {name}"))?;
    let report = [done.stdout, done.stderr].concat();
    let report = String::from_utf8_lossy(&report).trim().to_owned();
    ensure!(done.status.success(), "{name}: {}\n{report}", done.status);
    Ok(report)
}

/// Runs a command and kills its process group after `limit`: one test that hangs must not use the whole time of a
/// pipeline. Only for work of [`crate::supervisor`], which kills the other process groups of the session.
pub(crate) fn run_within(limit: Duration, command: &Command) -> Result<()> {
    run(&mut within(limit, command)).with_context(|| {
        let minutes = limit.as_secs() / 60;
        format!("within {minutes} minutes (after signal 9 the last test in the output hangs)")
    })
}

/// The command that [`run_within`] runs.
pub(crate) fn within(limit: Duration, command: &Command) -> Command {
    let mut timeout = Command::new("timeout");
    timeout
        .args(["--signal=KILL", &limit.as_secs_f64().to_string()])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap_or(root()));
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => timeout.env(key, value),
            None => timeout.env_remove(key),
        };
    }
    timeout
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn command_that_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "sleep 600 & echo $! > $PID_FILE; wait"])
            .env("PID_FILE", &pid);
        // Long enough for the shell to write the file on a busy machine.
        let error = run_within(Duration::from_secs(5), &shell).unwrap_err();
        assert!(format!("{error:#}").contains("signal: 9"), "{error:#}");
        let child = fs::read_to_string(pid).unwrap();
        let status = || fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        while status().is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
        let mut shell = Command::new("/bin/sh");
        run_within(Duration::from_secs(60), shell.args(["-c", "exit 0"])).unwrap();
    }
}
