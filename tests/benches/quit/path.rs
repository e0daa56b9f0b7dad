//! The path from an app's last instruction to the request, in parts.

use std::collections::BTreeSet;
use std::time::Duration;

use usher_tests::record::{Record, Sample};

use crate::trace::Mark;

/// The system calls that send a request.
const REQUEST: [&str; 2] = ["sys_sendto", "sys_writev"];

/// One path: the time at each point since the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The app's last instruction -> the kernel starts to end its process.
    exits: Duration,
    /// -> it notifies the process that watches.
    notified: Duration,
    /// The part of it in which the app's thread did not run: the kernel waited, or ran another thread.
    off: Duration,
    /// -> the watching process runs.
    runs: Duration,
    /// Between the agent and its worker process, which sends the request.
    handover: Option<Handover>,
    /// -> the request is sent.
    sends: Duration,
    /// -> the sidecar receives it.
    has: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handover {
    /// The agent runs -> it sends the job.
    orders: Duration,
    /// -> the worker runs.
    runs: Duration,
}

/// Threads that identify who takes part in a trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watcher {
    /// Of the process that is notified of the exit.
    pub(crate) threads: BTreeSet<i32>,
    /// Of the process that sends the request, if that is another one.
    pub(crate) worker: BTreeSet<i32>,
}

impl Way {
    /// The path of an app that stamped its exit and of a sidecar that stamped the request.
    pub(crate) fn of(
        marks: &[Mark],
        ended: Duration,
        request: Duration,
        watcher: &Watcher,
    ) -> Option<Self> {
        let first = |from: Duration, what: &str, wanted: &dyn Fn(&Mark) -> bool| {
            marks
                .iter()
                .find(|mark| mark.at >= from && mark.what == what && wanted(mark))
        };
        let is_watcher = |mark: &Mark| {
            mark.other
                .is_some_and(|thread| watcher.threads.contains(&thread))
        };
        let gone = first(ended, "sched_process_exit", &|_any| true)?;
        let notified = first(gone.at, "sched_waking", &is_watcher)?;
        let runs = first(notified.at, "sched_switch", &is_watcher)?;
        let (handover, sender, ready) = match watcher.worker.is_empty() {
            true => (None, &watcher.threads, runs.at),
            false => {
                let (handover, at) = Handover::after(marks, runs.at, watcher)?;
                (Some(handover), &watcher.worker, at)
            }
        };
        let sends = marks.iter().rfind(|mark| {
            REQUEST.contains(&mark.what.as_str())
                && sender.contains(&mark.thread)
                && mark.at <= request
        })?;
        let off = off_cpu(marks, gone.thread, gone.at, notified.at);
        Some(Self {
            exits: gone.at.checked_sub(ended)?,
            notified: notified.at - gone.at,
            off,
            runs: runs.at - notified.at,
            handover,
            sends: sends.at.checked_sub(ready)?,
            has: request - sends.at,
        })
    }
}

impl Handover {
    /// That of an agent that runs since then, and when its worker runs.
    fn after(marks: &[Mark], from: Duration, watcher: &Watcher) -> Option<(Self, Duration)> {
        let mut later = marks.iter().filter(|mark| mark.at >= from);
        let ordered = later
            .find(|mark| mark.what == "sys_sendmsg" && watcher.threads.contains(&mark.thread))?;
        // The thread that receives the job may run already.
        let received = later.find(|mark| {
            let is_switch = mark.what == "sched_switch";
            let runs = mark.other.filter(|_| is_switch);
            let calls = Some(mark.thread).filter(|_| mark.what.starts_with("sys_"));
            runs.or(calls)
                .is_some_and(|thread| watcher.worker.contains(&thread))
        })?;
        let handover = Self {
            orders: ordered.at - from,
            runs: received.at - ordered.at,
        };
        Some((handover, received.at))
    }
}

/// The time between two moments in which a thread did not run; it runs at the first.
fn off_cpu(marks: &[Mark], thread: i32, from: Duration, until: Duration) -> Duration {
    let mut off = Duration::ZERO;
    let mut since = None;
    let switches = marks.iter().filter(|mark| mark.what == "sched_switch");
    for mark in switches.filter(|mark| mark.at >= from && mark.at <= until) {
        if mark.thread == thread {
            since = Some(mark.at);
        } else if mark.other == Some(thread) {
            off += since.take().map_or(Duration::ZERO, |since| mark.at - since);
        }
    }
    off + since.map_or(Duration::ZERO, |since| until - since)
}

/// Adds the medians of the parts.
pub(crate) fn show(record: &mut Record, who: &str, ways: &[Way]) {
    type Part = fn(&Way) -> Option<Duration>;
    let parts: [(&str, Part); 8] = [
        ("the kernel begins to take the process down", |way| {
            Some(way.exits)
        }),
        ("it notifies the watcher", |way| Some(way.notified)),
        ("- of that, not on a CPU", |way| Some(way.off)),
        ("the watcher runs", |way| Some(way.runs)),
        ("it sends the job to its worker", |way| {
            way.handover.map(|handover| handover.orders)
        }),
        ("the worker runs", |way| {
            way.handover.map(|handover| handover.runs)
        }),
        ("the request is sent", |way| Some(way.sends)),
        ("the sidecar has it", |way| Some(way.has)),
    ];
    for (what, part) in parts {
        let mut sample = Sample::default();
        ways.iter()
            .filter_map(part)
            .for_each(|time| sample.add(time));
        if !sample.is_empty() {
            record.figure(&format!("{who}: {what}, p50, ms"), sample.quantile_ms(0.5));
        }
    }
}
