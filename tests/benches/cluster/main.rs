//! Jobs in a real cluster, with usher and with the alternatives.
//!
//! - From an app's last instruction to the completion of its Job: without a sidecar, with Istio's proxy terminated by usher, as
//!   a native sidecar, by a wrapper around the app's command, and by a controller that watches the status of pods.
//! - From a pod's binding to its app's first successful response through the mesh, for each way to wait for the proxy.
//! - Resource use and requests of the agent on a node with 110 real pods. `--real-pods N` sets another number, 0 means none.
//!
//! Jobs of different kinds run concurrently or in turn, so that a drift of the machine affects all of them. Needs a cluster
//! with Istio and usher in enforce mode; `cargo xtask bench cluster` creates one.
//!
//! ```text
//! USHER_TEST_CLUSTER=NAME cargo bench -p usher-tests --bench cluster -- [--quick] [--enforce] [--real-pods N]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it says why it does nothing, and ends at the first error"
)]

mod answer;
mod completion;
mod full;
#[path = "../start/place.rs"]
mod place;
mod row;

use std::{process::ExitCode, time::Duration};

use place::Place;
use usher_tests::record::{Record, is_quick};

const REAL_PODS: &str = "--real-pods";

/// The size of the measurement.
pub(crate) struct Effort {
    /// Rounds of completing Jobs.
    completions: usize,
    /// Rounds of Jobs that request a response.
    answers: usize,
    /// Simultaneous pods.
    real_pods: usize,
    rest: Duration,
}

const QUICK: Effort = Effort {
    completions: 3,
    answers: 1,
    real_pods: 30,
    rest: Duration::from_secs(15),
};
const WHOLE: Effort = Effort {
    completions: 15,
    answers: 3,
    real_pods: 110,
    rest: Duration::from_secs(60),
};

fn main() -> ExitCode {
    let Some(place) = Place::open() else {
        return ExitCode::SUCCESS;
    };
    let mut effort = if is_quick() { QUICK } else { WHOLE };
    let mut arguments = std::env::args().skip_while(|argument| argument != REAL_PODS);
    if let Some(pods) = arguments.nth(1) {
        effort.real_pods = pods.parse().unwrap();
    }
    let mut record = Record::begin("cluster");
    place.versions(&mut record);
    completion::measure(&mut record, &place, &effort);
    answer::measure(&mut record, &place, &effort);
    if effort.real_pods > 0 {
        full::measure(&mut record, &place, &effort);
    }
    record.finish()
}
