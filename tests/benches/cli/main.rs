//! Latency and memory of the program `usher`, compared with common tools.
//!
//! Times start before the program is started: to its first byte of output, and to its exit. The memory is the peak
//! of all programs of the run, so an upper bound.
//!
//! ```text
//! cargo build --release -p usher-agent
//! cargo bench -p usher-tests --bench cli -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded. Needs root, and the programs `ip`, `nft`, `nsenter` and `ss`.

mod conns;
mod pods;
mod run;

use std::process::ExitCode;

use usher_tests::privilege;
use usher_tests::record::{Record, is_quick};

/// Runs of each program.
const QUICK: usize = 10;
const WHOLE: usize = 40;

fn main() -> ExitCode {
    if !privilege::granted_with(&["nft", "nsenter", "ss"]) {
        return ExitCode::SUCCESS;
    }
    let runs = if is_quick() { QUICK } else { WHOLE };
    let mut record = Record::begin("cli");
    conns::measure(&mut record, runs, is_quick());
    pods::measure(&mut record, runs);
    record.finish()
}
