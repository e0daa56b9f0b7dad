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
    reason = "it says why it does nothing, and ends at the first error"
)]

mod arm;
mod exec;
mod gather;
mod hundred;
mod istio;
mod listener;
mod place;

use std::process::ExitCode;

use arm::Arm;
use place::Place;
use usher_tests::record::{Record, has_flag, is_quick};

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
    let Some(place) = Place::open() else {
        return ExitCode::SUCCESS;
    };
    let with_usher = !has_flag("--alternatives");
    let arms = Arm::ALL.into_iter();
    let arms = arms.filter(|arm| with_usher || *arm != Arm::Usher);
    let (listeners, jobs, execs) = if is_quick() { (10, 3, 5) } else { (50, 20, 20) };
    let effort = Effort {
        listeners,
        jobs,
        execs,
        arms: arms.collect(),
    };
    let mut record = Record::begin("start");
    place.versions(&mut record);
    listener::measure(&mut record, &place, &effort);
    istio::measure(&mut record, &place, &effort);
    if with_usher {
        exec::measure(&mut record, &place, &effort);
        hundred::measure(&mut record, &place);
    }
    record.finish()
}
