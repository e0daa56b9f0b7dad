//! `usher-agent` as tests build it: it stops where they want it to (`usher_client::crash_point`).

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_agent::agent()
}
