//! `usher-agent` as tests build it: it stops at the crash points that they choose (`usher_client::crash_point`).

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_agent::agent()
}
