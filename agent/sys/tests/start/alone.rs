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

/// Runs a test, named with its module, and says how its process ended.
pub(crate) fn run(test: &str) -> ExitStatus {
    let mut command = Command::new(env::current_exe().unwrap());
    let command = command.args(["--exact", test, "--test-threads", "2"]);
    command.env(VARIABLE, "yes").status().unwrap()
}
