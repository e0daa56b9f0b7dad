//! Runs tests, and repeats the few that failed.
//!
//! Most tests depend on a real kernel, kubelet and mesh, on two cores that other work shares. A test that passes when it
//! is repeated has a race, in usher or in the test. The summary reports it as flaky, and its first output stays in the
//! log. Without the repetition, a failure of 1 in 1,000 of each of the 2,000 tests would fail most runs.

use std::{
    io::{BufRead, BufReader, Write, stdout},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, anyhow, ensure};
use usher_cluster::progress::say;

use super::{LIMIT, verdict};
use crate::{step::Steps, workspace::within};

/// A defect fails more tests, or fails again.
const AT_MOST: usize = 2;

/// The exit code of cargo when a test failed; [`within`] exits with 137 at its limit.
const FAILED: i32 = 101;

/// What one run printed.
#[derive(Debug)]
struct Run {
    passed: Vec<String>,
    failed: Vec<String>,
    /// Every program has printed its summary, and `failed` has all that the summaries count: no program was killed,
    /// crashed or did not build.
    is_complete: bool,
    /// Why it failed, also if no test failed.
    result: Result<()>,
}

/// Runs a step that returns the names of flaky tests.
pub(super) fn step(steps: &mut Steps, title: &str, work: impl FnOnce() -> Result<Vec<String>>) {
    let mut flaky = Vec::new();
    steps.run(title, || {
        flaky = work()?;
        Ok(())
    });
    for test in &flaky {
        steps.flaky(test);
    }
}

/// Runs the tests that `command` selects. Returns the names of flaky tests.
pub(super) fn run(command: impl Fn() -> Command, filters: &[&str]) -> Result<Vec<String>> {
    run_to(&mut stdout(), command, filters)
}

fn run_to(
    out: &mut impl Write,
    command: impl Fn() -> Command,
    filters: &[&str],
) -> Result<Vec<String>> {
    let first = once(out, command().args(["--no-fail-fast", "--"]).args(filters))?;
    let Err(error) = first.result else {
        return Ok(Vec::new());
    };
    let failed = first.failed;
    // The tests of a program that ended early are not among the failed ones.
    if !first.is_complete || failed.is_empty() || failed.len() > AT_MOST {
        return Err(error);
    }
    say(&format!("{error:#}\nrepeating {}", failed.join(", ")));
    let second = once(
        out,
        command()
            .args(["--no-fail-fast", "--", "--exact"])
            .args(&failed),
    )?;
    second.result.context("a failed test failed again")?;
    // A name that selects no test would pass.
    ensure!(
        failed.iter().all(|name| second.passed.contains(name)),
        "a failed test did not run again"
    );
    Ok(failed)
}

/// Prints the output while it arrives.
fn once(out: &mut impl Write, command: &Command) -> Result<Run> {
    let mut command = within(LIMIT, command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {command:?}"))?;
    let output = child.stdout.take().context("read the results of tests")?;
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    let (mut begun, mut ended) = (0_usize, 0_usize);
    let mut failures = 0;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("read the results of tests")?;
        let written = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
        written.context("print the results of tests")?;
        let line = String::from_utf8_lossy(&line);
        match verdict::parse(&line) {
            Some((name, true)) => passed.push(name.to_owned()),
            Some((name, false)) => failed.push(name.to_owned()),
            None if line.starts_with("running ") => begun += 1,
            None if line.starts_with("test result: ") => {
                ended += 1;
                failures += verdict::failures(&line);
            }
            None => {}
        }
    }
    let status = child.wait().context("wait for the tests")?;
    let result = if status.success() {
        Ok(())
    } else {
        let minutes = LIMIT.as_secs() / 60;
        Err(anyhow!(
            "{status}, of at most {minutes} minutes (after signal 9 the last test in the output hangs)"
        ))
    };
    // Other output may separate the name of a test from its verdict.
    let failed_tests = failed.len();
    Ok(Run {
        passed,
        failed,
        is_complete: status.code() == Some(FAILED) && begun == ended && failures <= failed_tests,
        result,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;

    /// Stands for cargo: the first run prints `first` and fails, the second prints `second`.
    fn outcome(first: &str, second: &str) -> (Result<Vec<String>>, String) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = r#"echo "$@" >>"$LOG"
            if [ "$(wc -l <"$LOG")" = 1 ]; then echo "$FIRST"; exit 101; fi
            echo "$SECOND"; case "$SECOND" in *FAILED*) exit 101;; esac"#;
        let command = || {
            let mut command = Command::new("/bin/sh");
            command
                .args(["-c", script, "cargo"])
                .env("LOG", &log)
                .env("FIRST", first)
                .env("SECOND", second);
            command
        };
        // Not to stdout: a run of this test would take the lines for its own.
        let flaky = run_to(&mut io::sink(), command, &["filter"]);
        (flaky, fs::read_to_string(log).unwrap())
    }

    #[test]
    fn failed_test_is_repeated_and_named() {
        let first = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored";
        let (flaky, log) = outcome(first, "test a::c ... ok");
        assert_eq!(flaky.unwrap(), ["a::c"]);
        assert_eq!(
            log,
            "--no-fail-fast -- filter\n--no-fail-fast -- --exact a::c\n"
        );
    }

    #[test]
    fn defect_fails() {
        let one = "test a::c ... FAILED";
        let crashed = &format!("{one}\nrunning 1 test\ntest a::d ...");
        let separated = &format!(
            "running 2 tests\n{one}\ntest a::d ... output\nFAILED\ntest result: FAILED. 0 passed; 2 failed; 0 ignored"
        );
        for (first, second, runs) in [
            (one, one, 2),
            (one, "running 0 tests", 2),
            ("error: could not compile", "", 1),
            (crashed, "test a::c ... ok", 1),
            (separated, "test a::c ... ok", 1),
            (&[one; AT_MOST + 1].join("\n"), "test a::c ... ok", 1),
        ] {
            let (flaky, log) = outcome(first, second);
            assert!(flaky.is_err(), "{first}");
            assert_eq!(log.lines().count(), runs, "{first}");
        }
    }
}
