//! How soon after an app's exit its sidecar has the request to quit.
//!
//! Both times are `CLOCK_MONOTONIC`: one is the app's last act, the other is
//! taken in the sidecar when the whole head of the request is there. Beside
//! the agent runs the best that can be had inside of a container, a wrapper
//! that is the app's parent, exit by exit in turn on the same machine; the
//! ratio counts, absolute figures drift.
//!
//! ```text
//! cargo build --release -p usher-agent
//! cargo bench -p usher-tests --bench quit -- [--quick] [--burst] [--enforce]
//! ```
//!
//! `--burst` measures only all exits at once. `--enforce` exits with 1 when a budget is not kept. Needs root.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]

mod rig;
mod sample;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use rig::Rig;
use sample::Sample;
use table::{Limit, Table};
use usher_tests::privilege;

/// Pods on the node.
const CROWDS: [usize; 3] = [1, 50, 250];
const BURST: usize = 250;
const IDLE: Duration = Duration::from_secs(10);
/// After this nothing is new any more.
const NEW: Duration = Duration::from_secs(3);

/// How much is measured.
struct Effort {
    exits: usize,
    bursts: usize,
}

fn main() -> ExitCode {
    let flag = |name: &str| std::env::args().any(|argument| argument == name);
    if !privilege::granted() {
        return ExitCode::SUCCESS;
    }
    let effort = if flag("--quick") {
        Effort {
            exits: 60,
            bursts: 1,
        }
    } else {
        Effort {
            exits: 300,
            bursts: 4,
        }
    };
    let mut table = Table::default();
    if !flag("--burst") {
        for crowd in CROWDS {
            one_at_a_time(&mut table, crowd, &effort);
        }
    }
    all_at_once(&mut table, &effort);
    table.print();
    if flag("--enforce") && !table.kept() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn one_at_a_time(table: &mut Table, crowd: usize, effort: &Effort) {
    let mut rig = Rig::new(crowd);
    let (mut agent, mut wrapper) = (Sample::default(), Sample::default());
    // A part of the crowd goes and comes in each round; the rest stays.
    let part = crowd.div_ceil(5);
    while agent.len() < effort.exits {
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
    table.section(&title);
    table.times("agent", &agent);
    table.times("wrapper", &wrapper);
    table.limit("p50, ms", agent.quantile_ms(0.50), Limit::AtMost(1.0));
    table.limit("p99, ms", agent.quantile_ms(0.99), Limit::AtMost(5.0));
    let ratio = agent.quantile_ms(0.50) / wrapper.quantile_ms(0.50);
    table.limit("p50, agent / wrapper", ratio, Limit::AtMost(1.5));
    if crowd == BURST {
        idle(table, &rig);
    }
}

fn idle(table: &mut Table, rig: &Rig) {
    rig.settle();
    // The names of new containers are looked for during their first 2 s.
    std::thread::sleep(NEW);
    let before = rig.agent().usage();
    std::thread::sleep(IDLE);
    let after = rig.agent().usage();
    let share = (after.cpu - before.cpu).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let resident_kib = u32::try_from(after.resident_kib).expect("below 4 TiB");
    let wakeups = u32::try_from(after.wakeups - before.wakeups).expect("a small number");
    let preemptions =
        u32::try_from(after.preemptions - before.preemptions).expect("a small number");
    table.section(&format!(
        "agent with {BURST} pods, idle for {} s",
        IDLE.as_secs()
    ));
    table.limit(
        "resident, MiB",
        f64::from(resident_kib) / 1024.0,
        Limit::AtMost(12.0),
    );
    table.limit("CPU, % of a core", share, Limit::AtMost(0.1));
    table.limit(
        "voluntary context switches",
        f64::from(wakeups),
        Limit::None,
    );
    table.limit(
        "involuntary context switches",
        f64::from(preemptions),
        Limit::None,
    );
}

fn all_at_once(table: &mut Table, effort: &Effort) {
    let mut rig = Rig::new(BURST);
    let (mut agent, mut wrapper) = (Sample::default(), Sample::default());
    for _ in 0..effort.bursts {
        rig.agent_burst(&mut agent);
        rig.wrapper_burst(&mut wrapper);
        rig.refill();
    }
    table.section(&format!("exit -> request, {BURST} exits at once"));
    table.times("agent", &agent);
    table.times("wrapper", &wrapper);
    table.limit("p99, ms", agent.quantile_ms(0.99), Limit::AtMost(50.0));
    let ratio = agent.quantile_ms(0.50) / wrapper.quantile_ms(0.50);
    table.limit("p50, agent / wrapper", ratio, Limit::None);
}
