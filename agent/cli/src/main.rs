//! `usher`: what people do on a node by hand.

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_cli::run()
}
