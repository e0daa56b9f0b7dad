//! `usher-agent`: the node agent of usher.

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_agent::agent()
}
