//! The path from an app's last instruction to the request, in parts.

use std::collections::BTreeSet;
use std::time::Duration;

use usher_tests::record::{Record, Sample};

use crate::trace::Mark;

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
    /// -> it sends the request.
    sends: Duration,
    /// -> the sidecar receives it.
    has: Duration,
}

impl Way {
    /// The path of an app that stamped its exit and of a sidecar that stamped the request, for the agent with these threads.
    pub(crate) fn of(
        marks: &[Mark],
        ended: Duration,
        request: Duration,
        watcher: &BTreeSet<i32>,
    ) -> Option<Self> {
        let first = |from: Duration, what: &str, wanted: &dyn Fn(&Mark) -> bool| {
            marks
                .iter()
                .find(|mark| mark.at >= from && mark.what == what && wanted(mark))
        };
        let is_watcher = |mark: &Mark| mark.other.is_some_and(|thread| watcher.contains(&thread));
        let gone = first(ended, "sched_process_exit", &|_any| true)?;
        let notified = first(gone.at, "sched_waking", &is_watcher)?;
        let runs = first(notified.at, "sched_switch", &is_watcher)?;
        let sends = marks.iter().rfind(|mark| {
            mark.what.starts_with("sys_") && watcher.contains(&mark.thread) && mark.at <= request
        })?;
        let off = off_cpu(marks, gone.thread, gone.at, notified.at);
        Some(Self {
            exits: gone.at.checked_sub(ended)?,
            notified: notified.at - gone.at,
            off,
            runs: runs.at - notified.at,
            sends: sends.at.checked_sub(runs.at)?,
            has: request - sends.at,
        })
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
    type Part = fn(&Way) -> Duration;
    let parts: [(&str, Part); 6] = [
        ("the kernel begins to take the process down", |way| {
            way.exits
        }),
        ("it notifies the watcher", |way| way.notified),
        ("- of that, not on a CPU", |way| way.off),
        ("who watches runs", |way| way.runs),
        ("the request is sent", |way| way.sends),
        ("the sidecar has it", |way| way.has),
    ];
    for (what, part) in parts {
        let mut sample = Sample::default();
        ways.iter().for_each(|way| sample.add(part(way)));
        record.figure(&format!("{who}: {what}, p50, ms"), sample.quantile_ms(0.5));
    }
}
