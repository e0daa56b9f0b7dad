//! The calls that the shipped programs make in the suites.
//!
//! A test that is about time, or that traces the agent itself, may fail under strace: that is said, and no reason not
//! to use what was seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use usher_cluster::{programs::ensure_package, progress::say};

use crate::{
    image,
    workspace::{cargo, run as run_command, target_dir},
};

/// Those that start the agent or the command.
const SUITES: [&str; 9] = [
    "synthetic",
    "hold",
    "start",
    "faults",
    "places",
    "sidecars",
    "events",
    "cleanup",
    "cli",
];
/// The programs of the agent's container, and the variable by which tests take another build of each.
const TRACED: [(&str, &str); 2] = [
    ("usher-agent", "USHER_AGENT_BIN"),
    ("usher", "USHER_CLI_BIN"),
];
/// How long a tracer may take to write what it has counted.
const WRITING: Duration = Duration::from_secs(30);
/// Nobody tells when it has.
const LOOK: Duration = Duration::from_millis(100);

/// The names of all calls that each program made.
pub(super) fn run(suites: &[String]) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let strace = ensure_package("strace", "strace")?;
    let programs = image::programs()?;
    let folder = target_dir().join("seccomp");
    // What an earlier run saw is not this one's.
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    run_command(&mut cargo(["build", "--workspace", "--bins"]))?;
    let mut test = cargo(["test", "--package", "usher-tests", "--no-fail-fast"]);
    let all = SUITES.map(str::to_owned);
    let suites = if suites.is_empty() { &all } else { suites };
    for suite in suites {
        test.args(["--test", suite]);
    }
    // Each call takes a tracer's time as well.
    test.args(["--", "--test-threads=2"]);
    for (name, variable) in TRACED {
        let is_it = |path: &&PathBuf| path.file_name().is_some_and(|file| file == name);
        let program = programs.iter().find(is_it).context("the image has it")?;
        test.env(variable, wrapper(&strace, program, name, &folder)?);
    }
    if let Err(error) = run_command(&mut test) {
        say(&format!(
            "{error:#}: not all tests can be passed under strace"
        ));
    }
    counted(&folder)
}

/// What is in the folder of a run.
pub(super) fn counted(folder: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let names = TRACED.iter().map(|(name, _variable)| *name);
    names
        .map(|name| {
            let calls = of_program(&folder.join(format!("{name}.calls")))?;
            Ok((name.to_owned(), calls))
        })
        .collect()
}

/// A program that becomes the traced one, so that its pid is what tests take it for (`-D`). Its environment may be empty.
fn wrapper(strace: &Path, program: &Path, name: &str, folder: &Path) -> Result<PathBuf> {
    let calls = folder.join(format!("{name}.calls"));
    fs::create_dir_all(&calls).with_context(|| format!("create {}", calls.display()))?;
    let path = folder.join(name);
    let text = format!(
        "#!/bin/sh\nread id </proc/sys/kernel/random/uuid\nexec {} -D -f -c -U calls,name -qq -o {}/$id {} \"$@\"\n",
        strace.display(),
        calls.display(),
        program.display(),
    );
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("make {} executable", path.display()))?;
    Ok(path)
}

/// What all tracers counted. A file is empty until its tracer has seen the end.
fn of_program(calls: &Path) -> Result<BTreeSet<String>> {
    let end = Instant::now() + WRITING;
    loop {
        let files = fs::read_dir(calls).with_context(|| format!("list {}", calls.display()))?;
        let mut names = BTreeSet::new();
        let (mut whole, mut empty) = (0, 0);
        for file in files {
            let path = file.context("list")?.path();
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| format!("read {}", path.display()))?;
            match text.is_empty() {
                true => empty += 1,
                false => whole += 1,
            }
            names.extend(text.lines().filter_map(name));
        }
        if empty == 0 || Instant::now() > end {
            say(&format!(
                "{whole} runs were traced, {empty} tracers said nothing"
            ));
            return Ok(names);
        }
        thread::sleep(LOOK);
    }
}

/// The call of a line such as `      12 read`.
fn name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    words.next()?.parse::<u64>().ok()?;
    let name = words.next().filter(|name| *name != "total")?;
    words.next().is_none().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_and_nothing_else() {
        let text = "    calls syscall\n--------- ----------------\n        4 futex\n       12 read\n--------- ----------------\n       16 total\n";
        let names: Vec<String> = text.lines().filter_map(name).collect();
        assert_eq!(names, ["futex", "read"]);
    }
}
