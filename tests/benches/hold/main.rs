//! The time from a sidecar's readiness to its app's first connection.
//!
//! Times are `CLOCK_MONOTONIC`: the sidecar starts to listen, the app's
//! `connect` has returned. The alternatives run with the same pods:
//! `pilot-agent wait`, a loop around `curl`, and a
//! packet filter that drops until the sidecar is ready and relies on
//! TCP's retransmissions. The sidecars of a batch become ready spread evenly
//! over one second, to cover every phase of a loop.
//!
//! ```text
//! cargo build --release -p usher-agent -p usher-cni
//! cargo bench -p usher-tests --bench hold -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded; a failed connection
//! panics. Needs root.

mod arm;
mod rig;
mod start;

use std::process::ExitCode;
use std::time::Duration;

use arm::Arm;
use rig::Rig;
use usher_tests::privilege;
use usher_tests::record::{Limit, Record, Sample, is_quick};

/// The size of the measurement.
pub(crate) struct Effort {
    /// The durations of holds.
    holds: &'static [Duration],
    /// Pods for each figure.
    pods: usize,
}

const QUICK: Effort = Effort {
    holds: &[
        Duration::from_millis(200),
        Duration::from_secs(1),
        Duration::from_secs(2),
    ],
    pods: 10,
};
const WHOLE: Effort = Effort {
    holds: &[
        Duration::from_millis(200),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(2),
        Duration::from_secs(5),
        Duration::from_secs(10),
    ],
    pods: 25,
};
/// Simultaneous connections of one app.
const CONNECTIONS: [usize; 2] = [20, 200];
/// Pods with sidecars that are ready at the same moment.
const CROWD: usize = 50;

fn main() -> ExitCode {
    if !privilege::granted_with(&["nft"]) {
        return ExitCode::SUCCESS;
    }
    let effort = if is_quick() { QUICK } else { WHOLE };
    let mut record = Record::begin("hold");
    let mut rig = Rig::new();
    ready_to_connect(&mut record, &mut rig, &effort);
    many_at_once(&mut record, &mut rig, &effort);
    start::measure(&mut record, &mut rig, &effort);
    record.finish()
}

/// One connection, compared with the alternatives.
fn ready_to_connect(record: &mut Record, rig: &mut Rig, effort: &Effort) {
    for hold in effort.holds {
        record.section(&format!(
            "ready -> connected, held for {hold:?}, 1 connection"
        ));
        let mut medians = Vec::new();
        let mut released = Sample::default();
        for arm in Arm::ALL {
            let times = rig.batch(arm, 1, effort.pods, *hold);
            record.times(arm.name(), &times.connected);
            medians.push(times.connected.quantile_ms(0.50));
            if arm == Arm::Usher {
                record.times("  of which: probe answered ->", &times.released);
                released = times.released;
            }
        }
        record
            .limit("hold.p50", "p50, ms", medians[0], Limit::AtMost(5.0))
            .against(Arm::PilotAgent.name(), medians[1]);
        let p50 = released.quantile_ms(0.50);
        record.limit(
            "hold.release",
            "probe answered -> connected, p50, ms",
            p50,
            Limit::AtMost(0.5),
        );
    }
}

fn many_at_once(record: &mut Record, rig: &mut Rig, effort: &Effort) {
    for hold in effort.holds {
        record.section(&format!("ready -> connected, held for {hold:?}, by usher"));
        for connections in CONNECTIONS {
            let times = rig.batch(Arm::Usher, connections, effort.pods.min(10), *hold);
            record.times(&format!("{connections} connections"), &times.connected);
        }
        let times = rig.crowd(CROWD, *hold);
        record.times(
            &format!("{CROWD} pods at the same moment"),
            &times.connected,
        );
    }
}
