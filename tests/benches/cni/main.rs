//! The time that `usher-cni` adds to a pod's CNI ADD: its whole process, from the fork to the exit; with an agent that holds
//! the pod, with one that has nothing to hold, and without one.
//!
//! ```text
//! cargo build --release -p usher-agent -p usher-cni
//! cargo bench -p usher-tests --bench cni -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded. Needs root, and the programs `ip` and `nft`.

mod add;

use std::process::ExitCode;

use usher_tests::privilege;
use usher_tests::record::{Record, is_quick};

/// Calls for each figure.
const QUICK: usize = 20;
const WHOLE: usize = 200;

fn main() -> ExitCode {
    if !privilege::granted_with(&["nft"]) {
        return ExitCode::SUCCESS;
    }
    let mut record = Record::begin("cni");
    add::measure(&mut record, if is_quick() { QUICK } else { WHOLE });
    record.finish()
}
