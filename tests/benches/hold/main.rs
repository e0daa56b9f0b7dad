//! How soon after its sidecar is ready an app's first connection is made.
//!
//! Times are `CLOCK_MONOTONIC`: the sidecar's `listen` has returned, the app's
//! `connect` has. Beside the agent, in the same run and with the same pods, is
//! what is done without it: `pilot-agent wait`, a loop around `curl`, and a
//! packet filter that drops until the sidecar is ready and leaves the rest to
//! TCP's retransmissions. The sidecars of a batch become ready spread evenly
//! over one second, so that a loop is met at every phase.
//!
//! ```text
//! cargo build --release -p usher-agent -p usher-cni
//! cargo bench -p usher-tests --bench hold -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is not kept; a connection that failed
//! panics. Needs root.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]

mod add;
mod arm;
mod rig;
#[path = "../quit/sample.rs"]
mod sample;
mod start;
#[path = "../quit/table.rs"]
mod table;

use std::process::ExitCode;
use std::time::Duration;

use arm::Arm;
use rig::Rig;
use table::{Limit, Table};
use usher_tests::privilege;

/// How much is measured.
pub(crate) struct Effort {
    /// How long connections wait.
    holds: &'static [Duration],
    /// Pods for each figure.
    pods: usize,
    /// Calls of the plugin for each figure.
    calls: usize,
}

const QUICK: Effort = Effort {
    holds: &[
        Duration::from_millis(200),
        Duration::from_secs(1),
        Duration::from_secs(2),
    ],
    pods: 10,
    calls: 20,
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
    calls: 100,
};
/// Connections of one app at the same time.
const CONNECTIONS: [usize; 2] = [20, 200];
/// Pods whose sidecars are ready at the same moment.
const CROWD: usize = 50;

fn main() -> ExitCode {
    let flag = |name: &str| std::env::args().any(|argument| argument == name);
    if !privilege::granted_with(&["ip", "nft"]) {
        return ExitCode::SUCCESS;
    }
    let effort = if flag("--quick") { QUICK } else { WHOLE };
    let mut table = Table::default();
    let mut rig = Rig::new();
    ready_to_connect(&mut table, &mut rig, &effort);
    many_at_once(&mut table, &mut rig, &effort);
    start::measure(&mut table, &mut rig, &effort);
    drop(rig);
    add::measure(&mut table, &effort);
    table.print();
    if flag("--enforce") && !table.kept() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// One connection, beside the alternatives.
fn ready_to_connect(table: &mut Table, rig: &mut Rig, effort: &Effort) {
    for hold in effort.holds {
        table.section(&format!(
            "ready -> connected, held for {hold:?}, 1 connection"
        ));
        for arm in Arm::ALL {
            let times = rig.batch(arm, 1, effort.pods, *hold);
            table.times(arm.name(), &times.connected);
            if arm == Arm::Usher {
                let p50 = times.connected.quantile_ms(0.50);
                table.limit("p50, ms", p50, Limit::AtMost(5.0));
                table.times("  of which: probe answered ->", &times.released);
                let p50 = times.released.quantile_ms(0.50);
                table.limit("  p50, ms", p50, Limit::AtMost(0.5));
            }
        }
    }
}

fn many_at_once(table: &mut Table, rig: &mut Rig, effort: &Effort) {
    for hold in effort.holds {
        table.section(&format!("ready -> connected, held for {hold:?}, by usher"));
        for connections in CONNECTIONS {
            let times = rig.batch(Arm::Usher, connections, effort.pods.min(10), *hold);
            table.times(&format!("{connections} connections"), &times.connected);
        }
        let times = rig.crowd(CROWD, *hold);
        table.times(
            &format!("{CROWD} pods at the same moment"),
            &times.connected,
        );
    }
}
