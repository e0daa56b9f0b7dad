//! Tests that change their process, in a process of their own: this program again, with that test only.

use std::{
    env,
    process::{Command, ExitStatus},
};

const VARIABLE: &str = "USHER_TEST_ALONE";

/// Whether this is that process.
pub(crate) fn is_alone() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Runs a test, named with its module, and says how its process ended. What it says is for who looks for the cause of a
/// failure, and no result of this program.
#[expect(clippy::print_stderr, reason = "shown with a test that fails")]
pub(crate) fn run(test: &str) -> ExitStatus {
    let mut command = Command::new(env::current_exe().unwrap());
    let command = command.args(["--exact", test, "--test-threads", "2"]);
    let output = command.env(VARIABLE, "yes").output().unwrap();
    for said in [&output.stdout, &output.stderr] {
        eprintln!("{}", String::from_utf8_lossy(said));
    }
    output.status
}
