//! How soon after its sidecar is ready an app runs its first instruction, where it is not to run before.
//!
//! Beside usher's hold of the start, in the same run on the same node, is what is done without it: Istio's own
//! `holdApplicationUntilProxyStarts`, whose hook asks every 500 ms, and a loop around the app's command. All times are of
//! the node's clock. Two kinds of pods are measured:
//!
//! - a sidecar that listens when a file is there: it says itself when that was;
//! - Istio's real proxy, asked every 2 ms from the pod's network: counted is from the last time that it was *not* ready,
//!   so up to 3 ms of each figure are the asking's.
//!
//! Then what a marked file system costs those who execute something else on it, and a hundred containers that are held
//! at once. Needs a cluster with Istio and usher on it, enforcing; `cargo xtask bench start` makes one.
//!
//! ```text
//! USHER_TEST_CLUSTER=NAME cargo bench -p usher-tests --bench start -- [--quick] [--enforce] [--alternatives]
//! ```
//!
//! `--alternatives` leaves out what needs usher. `--enforce` exits with 1 when a budget is not kept.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the table is what a benchmark is for, and it ends at the first error"
)]

mod arm;
mod exec;
mod hundred;
mod istio;
mod listener;
mod place;
#[path = "../quit/sample.rs"]
mod sample;
#[path = "../quit/table.rs"]
mod table;

use std::process::ExitCode;

use arm::Arm;
use place::Place;
use table::Table;

/// How much is measured.
pub(crate) struct Effort {
    /// Pods whose sidecar only listens, for each way to wait.
    listeners: usize,
    /// Jobs in the mesh, for each way to wait.
    jobs: usize,
    /// How often the programs of a container are counted.
    execs: usize,
    /// Which ways to wait.
    arms: Vec<Arm>,
}

fn main() -> ExitCode {
    let flag = |name: &str| std::env::args().any(|argument| argument == name);
    let Some(place) = Place::open() else {
        return ExitCode::SUCCESS;
    };
    let with_usher = !flag("--alternatives");
    let arms = Arm::ALL.into_iter();
    let arms = arms.filter(|arm| with_usher || *arm != Arm::Usher);
    let (listeners, jobs, execs) = if flag("--quick") {
        (10, 3, 5)
    } else {
        (50, 20, 20)
    };
    let effort = Effort {
        listeners,
        jobs,
        execs,
        arms: arms.collect(),
    };
    let mut table = Table::default();
    listener::measure(&mut table, &place, &effort);
    istio::measure(&mut table, &place, &effort);
    if with_usher {
        exec::measure(&mut table, &place, &effort);
        hundred::measure(&mut table, &place);
    }
    table.print();
    if flag("--enforce") && !table.kept() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
