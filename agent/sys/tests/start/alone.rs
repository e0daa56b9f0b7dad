//! Runs a test that changes its process in a separate process: this program with only that test.

use std::{
    env,
    process::{Command, ExitStatus},
};

const VARIABLE: &str = "USHER_TEST_ALONE";

/// Whether this is the separate process.
pub(crate) fn is_alone() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Runs a test by its full name, and returns its exit status. Its output helps to debug a failure.
#[expect(clippy::print_stderr, reason = "shown with a test that fails")]
pub(crate) fn run(test: &str) -> ExitStatus {
    let mut command = Command::new(env::current_exe().unwrap());
    let command = command.args(["--exact", test, "--test-threads", "2"]);
    let output = command.env(VARIABLE, "yes").output().unwrap();
    for text in [&output.stdout, &output.stderr] {
        eprintln!("{}", String::from_utf8_lossy(text));
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    // No test at all is a success as well.
    assert!(
        !output.status.success() || stdout.contains("1 passed"),
        "{test} did not run"
    );
    output.status
}
