//! `kubectl-usher`, which kubectl runs as `kubectl usher`.

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_cli::kubectl::run()
}
