//! The time from a sidecar's readiness to the first instruction of an app that must not run before.
//!
//! The alternatives to usher's hold of the start run on the same node: Istio's own
//! `holdApplicationUntilProxyStarts` with a hook that polls every 500 ms, and a loop around the app's command. All times
//! are from the node's clock. Two kinds of pods are measured:
//!
//! - a sidecar that listens when a file exists, and reports the time itself;
//! - Istio's real proxy, polled every 2 ms from the pod's network. The time starts when it was last *not* ready,
//!   so polling adds up to 3 ms to each figure.
//!
//! Then the overhead of a marked file system for other programs on it, and a hundred containers that are held
//! at once. Needs a cluster with Istio and usher in enforce mode; `cargo xtask bench start` creates one.
//!
//! ```text
//! USHER_TEST_CLUSTER=NAME cargo bench -p usher-tests --bench start -- [--quick] [--enforce] [--alternatives]
//! ```
//!
//! `--alternatives` skips what needs usher. `--enforce` exits with 1 when a budget is exceeded.

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

/// The size of the measurement.
pub(crate) struct Effort {
    /// Pods with a sidecar that only listens, for each alternative.
    listeners: usize,
    /// Jobs in the mesh, for each alternative.
    jobs: usize,
    /// The number of measurements of a container's programs.
    execs: usize,
    /// The alternatives.
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
