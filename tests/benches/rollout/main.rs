//! The end of pods in a real cluster, with usher and with the alternatives.
//!
//! - Rolling restarts of a Deployment of four pods behind a Service, under a constant load from a client in the mesh and one
//!   outside of it: failed requests, and the time of a restart until its last old pod is gone. The app ends at once on SIGTERM.
//! - From the deletion of a pod until it is gone, where the app ends at once: with Istio's sidecar, with usher, without a
//!   sidecar, and as a native sidecar.
//! - Apps that work for 10 s after SIGTERM and call a service through the mesh ten times a second: failed calls, and the time
//!   until the pod is gone, with Istio's drains of 5 and 60 s, as a native sidecar, and with linger.
//! - The time of `runc kill` for a container that did not request anything, with usher and without it.
//!
//! usher holds no connections of these pods, and manages only the pods that measure usher. Needs a cluster with Istio
//! and usher in enforce mode; `cargo xtask bench rollout` creates one.
//!
//! ```text
//! USHER_TEST_CLUSTER=NAME cargo bench -p usher-tests --bench rollout -- [--quick] [--enforce] [--only PART]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded. A PART is `rollouts`, `deletions`, `calls` or `kill`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it prints its progress, and ends at the first error"
)]

mod arm;
mod armed;
mod calls;
mod client;
mod deletions;
mod kill;
#[path = "../start/place.rs"]
mod place;
mod rollouts;
mod watch;

use std::{process::ExitCode, time::Duration};

use place::Place;
use usher_tests::record::{Record, is_quick};

/// For one step of a benchmark.
const PATIENCE: Duration = Duration::from_secs(180);

const ONLY: &str = "--only";

/// For 1,000 calls, also where each takes a tenth longer than its interval.
const CALLERS: usize = 11;

/// The size of the measurement.
pub(crate) struct Effort {
    /// Rolling restarts of each kind.
    rollouts: usize,
    /// Requests a second of each client.
    rate: u32,
    /// Deleted pods of each kind.
    deletions: usize,
    /// Pods of each kind that are deleted at once while their apps work on.
    callers: usize,
    /// Signals with usher, and without it.
    kills: usize,
}

const QUICK: Effort = Effort {
    rollouts: 3,
    rate: 50,
    deletions: 5,
    callers: CALLERS,
    kills: 100,
};
const WHOLE: Effort = Effort {
    rollouts: 20,
    rate: 200,
    deletions: 20,
    callers: CALLERS,
    kills: 500,
};

fn main() -> ExitCode {
    let Some(place) = Place::open() else {
        return ExitCode::SUCCESS;
    };
    let effort = if is_quick() { QUICK } else { WHOLE };
    let only = std::env::args()
        .skip_while(|argument| argument != ONLY)
        .nth(1);
    let is_wanted = |part| only.as_deref().is_none_or(|only| only == part);
    let mut record = Record::begin("rollout");
    place.versions(&mut record);
    if is_wanted("deletions") {
        deletions::measure(&mut record, &place, &effort);
    }
    if is_wanted("calls") {
        calls::measure(&mut record, &place, &effort);
    }
    if is_wanted("rollouts") {
        rollouts::measure(&mut record, &place, &effort);
    }
    if is_wanted("kill") {
        kill::measure(&mut record, &place, &effort);
    }
    record.finish()
}
