//! Standard error: everything that is not the result of a command.

use std::io::{self, Write};

/// A closed standard error is ignored.
pub(crate) fn print_stderr(line: &str) {
    drop(writeln!(io::stderr().lock(), "usher: {line}"));
}
