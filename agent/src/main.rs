//! `usher-agent`: watches the pods of its node and shows the sidecars of
//! finished pods out.

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_agent::agent()
}
