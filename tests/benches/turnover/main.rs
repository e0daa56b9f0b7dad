//! The memory of the agent while 50,000 pods start, are quit and are removed: it must not depend on the number of
//! pods so far.
//!
//! The pods are real processes in real namespaces, as many at a time as this machine starts without a long wait.
//!
//! ```text
//! cargo build --release -p usher-agent
//! cargo bench -p usher-tests --bench turnover -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded. Needs root.

#[path = "../quit/crowd.rs"]
#[expect(dead_code, reason = "only the place needs it, for its node")]
mod crowd;
#[path = "../scale/place.rs"]
#[expect(dead_code, reason = "requests are measured by the benchmark scale")]
mod place;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use usher_tests::privilege;
use usher_tests::record::{Limit, Record, is_quick};
use usher_tests::synthetic::process::{self, Usage};
use usher_tests::synthetic::{Agent, Node, PodSpec};

use crate::crowd::SIDECAR;
use crate::place::{Place, count};

/// Pods at the same time.
const LANES: usize = 24;
/// The removed pods between samples of memory.
const SAMPLE: usize = 8;

/// Numbers of pods.
struct Effort {
    /// Before the first measurement: until then caches and the allocator may grow.
    first: usize,
    all: usize,
}

const QUICK: Effort = Effort {
    first: 200,
    all: 600,
};
const WHOLE: Effort = Effort {
    first: 10_000,
    all: 50_000,
};

/// Resident memory, in KiB.
#[derive(Debug, Clone, Copy, Default)]
struct Resident {
    /// Of its main process.
    agent: u64,
    /// Of its other processes.
    children: u64,
}

impl Resident {
    fn of(agent: &Agent) -> Self {
        let children = process::children(agent.pid()).into_iter();
        Self {
            agent: agent.usage().resident_kib,
            children: children.map(|pid| Usage::of(pid).resident_kib).sum(),
        }
    }

    fn most(self, other: Self) -> Self {
        Self {
            agent: self.agent.max(other.agent),
            children: self.children.max(other.children),
        }
    }
}

/// Runs this number of pods from their start to their removal, and returns the most memory meanwhile.
fn turn_over(place: &Place, pods: usize) -> Resident {
    let begun = AtomicUsize::new(0);
    let (removed, receiver) = channel();
    thread::scope(|scope| {
        let most = scope.spawn(|| {
            let mut most = Resident::of(&place.agent);
            for (number, ()) in receiver.into_iter().enumerate() {
                if number % SAMPLE == 0 {
                    most = most.most(Resident::of(&place.agent));
                    // The log of all pods takes more memory than all pods.
                    place.agent.log().forget();
                }
            }
            most
        });
        for _lane in 0..LANES {
            let (removed, begun) = (removed.clone(), &begun);
            scope.spawn(move || lane(&place.crowd.node, begun, pods, &removed));
        }
        drop(removed);
        most.join().expect("the agent runs")
    })
}

/// Pods one after the other. Sends a message for each that is removed.
fn lane(node: &Node, begun: &AtomicUsize, pods: usize, removed: &Sender<()>) {
    loop {
        let number = begun.fetch_add(1, Ordering::Relaxed);
        if number >= pods {
            return;
        }
        let pod = node.run(&PodSpec::job(&format!("job-{number}")));
        pod.finish("app", 0);
        pod.ended(SIDECAR);
        drop(pod);
        removed.send(()).expect("the memory is measured");
    }
}

/// The memory when no pod is left.
fn rest(agent: &Agent) -> Resident {
    agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
    Resident::of(agent)
}

fn mib(kib: u64) -> f64 {
    f64::from(u32::try_from(kib).expect("below 4 TiB")) / 1024.0
}

fn main() -> ExitCode {
    if !privilege::granted() {
        return ExitCode::SUCCESS;
    }
    let effort = if is_quick() { QUICK } else { WHOLE };
    let mut record = Record::begin("turnover");
    let place = Place::new(0);
    let began = Instant::now();
    let most = turn_over(&place, effort.first);
    let first = rest(&place.agent);
    let most = turn_over(&place, effort.all - effort.first).most(most);
    let last = rest(&place.agent);
    let took = began.elapsed();
    record.section(&format!(
        "{} pods come, are quit and go, {LANES} at a time",
        effort.all
    ));
    record.figure("pods a second", count(effort.all) / took.as_secs_f64());
    record.limit(
        "turnover.resident",
        "main process, resident at most, MiB",
        mib(most.agent),
        Limit::AtMost(16.0),
    );
    let after_first = format!("  after {} pods, MiB", effort.first);
    record.figure(&after_first, mib(first.agent));
    let after_all = format!("  after {} pods, MiB", effort.all);
    record.figure(&after_all, mib(last.agent));
    record.limit(
        "turnover.growth",
        "growth from the first to the second, MiB",
        mib(last.agent) - mib(first.agent),
        Limit::AtMost(1.0),
    );
    record.figure("other processes, resident at most, MiB", mib(most.children));
    record.limit(
        "turnover.children",
        "other processes, growth, MiB",
        mib(last.children) - mib(first.children),
        Limit::AtMost(1.0),
    );
    record.finish()
}
