//! `usher`, the command-line tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_cli::run()
}
