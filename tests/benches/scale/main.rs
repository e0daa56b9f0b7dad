//! The cost of the agent on a full node, and its requests to the kubelet and the API server.
//!
//! 250 idle pods, 20 pods a second that start, finish and go, and 250 exits at the same moment. All with an API server
//! that counts its requests. A node of 250 pods is more than a kubelet runs by default (110); `cluster` measures 110
//! real pods.
//!
//! ```text
//! cargo build --release -p usher-agent
//! cargo bench -p usher-tests --bench scale -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded. Needs root.

mod burst;
mod churn;
#[path = "../quit/crowd.rs"]
mod crowd;
mod place;
mod rest;

use std::process::ExitCode;
use std::time::Duration;

use usher_tests::privilege;
use usher_tests::record::{Record, is_quick};

/// Pods on the node.
pub(crate) const PODS: usize = 250;

/// The size of the measurement.
pub(crate) struct Effort {
    /// The duration without activity.
    rest: Duration,
    /// The duration of the churn.
    churn: Duration,
    /// The number of bursts.
    bursts: usize,
}

const QUICK: Effort = Effort {
    rest: Duration::from_secs(15),
    churn: Duration::from_secs(30),
    bursts: 1,
};
const WHOLE: Effort = Effort {
    rest: Duration::from_secs(60),
    churn: Duration::from_secs(600),
    bursts: 4,
};

fn main() -> ExitCode {
    if !privilege::granted() {
        return ExitCode::SUCCESS;
    }
    let effort = if is_quick() { QUICK } else { WHOLE };
    let mut record = Record::begin("scale");
    rest::measure(&mut record, &effort);
    churn::measure(&mut record, &effort);
    burst::measure(&mut record, &effort);
    record.finish()
}
