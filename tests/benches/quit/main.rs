//! The time from an app's exit to the quit request at its sidecar.
//!
//! Both times are `CLOCK_MONOTONIC`: one is the app's last instruction, the other is
//! taken in the sidecar when the head of the request is complete. The alternative
//! is the best possible one inside of a container, a wrapper
//! that is the app's parent. Both run in turn, exit by exit, on the same machine:
//! the ratio is meaningful, absolute figures drift. All exits at once are in `scale`.
//!
//! ```text
//! cargo build --release -p usher-agent
//! cargo bench -p usher-tests --bench quit -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded. Needs root.

mod crowd;
mod path;
mod rig;
mod trace;

use std::process::ExitCode;

use path::Way;
use rig::Rig;
use trace::Trace;
use usher_tests::privilege;
use usher_tests::record::{Limit, Record, Sample, is_quick};

/// Pods on the node.
const CROWDS: [usize; 3] = [1, 50, 250];
/// Exits with each crowd.
const QUICK: usize = 60;
const WHOLE: usize = 300;
/// Pods on the node during the trace.
const TRACED: usize = 10;

fn main() -> ExitCode {
    if !privilege::granted() {
        return ExitCode::SUCCESS;
    }
    let exits = if is_quick() { QUICK } else { WHOLE };
    let mut record = Record::begin("quit");
    for crowd in CROWDS {
        one_at_a_time(&mut record, crowd, exits);
    }
    // The last part, because a trace takes time itself.
    where_it_goes(&mut record, exits / 2);
    record.finish()
}

fn one_at_a_time(record: &mut Record, crowd: usize, exits: usize) {
    let mut rig = Rig::new(crowd);
    let (mut agent, mut wrapper) = (Sample::default(), Sample::default());
    // Each round replaces a part of the crowd; the rest stays.
    let part = crowd.div_ceil(5);
    while agent.len() < exits {
        for _ in 0..part {
            agent.add(rig.agent_exit());
            wrapper.add(rig.wrapper_exit());
        }
        rig.refill();
    }
    let title = match crowd {
        1 => "exit -> request, 1 pod".to_owned(),
        _ => format!("exit -> request, {crowd} pods"),
    };
    record.section(&title);
    record.times("agent", &agent);
    record.times("wrapper", &wrapper);
    let [p50, p99] = [0.50, 0.99].map(|part| (agent.quantile_ms(part), wrapper.quantile_ms(part)));
    record
        .limit("quit.p50", "p50, ms", p50.0, Limit::AtMost(1.0))
        .against("wrapper", p50.1);
    record
        .limit("quit.p99", "p99, ms", p99.0, Limit::AtMost(5.0))
        .against("wrapper", p99.1);
    record.limit(
        "quit.ratio",
        "p50, agent / wrapper",
        p50.0 / p50.1,
        Limit::AtMost(1.5),
    );
}

/// The parts of the path, with few pods on the node.
fn where_it_goes(record: &mut Record, exits: usize) {
    record.section("exit -> request, in parts, traced by the kernel");
    let mut trace = match Trace::begin() {
        Ok(trace) => trace,
        Err(error) => {
            record.section(&format!("not traced, this kernel does not let us: {error}"));
            return;
        }
    };
    let mut rig = Rig::new(TRACED);
    let mut all: [Vec<Way>; 2] = Default::default();
    let mut made = 0;
    while made < exits {
        for _ in 0..TRACED {
            let ways = rig.ways(&mut trace).expect("the trace can be read");
            for (all, way) in all.iter_mut().zip(ways) {
                all.extend(way);
            }
            made += 1;
        }
        rig.refill();
    }
    for (who, ways) in ["agent", "wrapper"].iter().zip(&all) {
        record.figure(
            &format!("{who}, ways that were traced whole"),
            ways.len() as f64,
        );
        path::show(record, who, ways);
    }
}
