//! A record of what happened on a node, with functions to wait for changes.
//!
//! One thread reads the events of all shims into the ledger. Tests wait on its
//! condition variable, and the stand-in for the kubelet derives statuses from it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use crate::synthetic::spec::PodSpec;
use crate::synthetic::wire::{Added, Event, What};
use crate::wait::patience;

/// One run of a container.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub id: String,
    /// The time of its order.
    pub ordered: SystemTime,
    /// The pid of its init process.
    pub pid: Option<i32>,
    /// The runtime has started it; its program may not have run yet.
    pub started: bool,
    /// The time of its program's first instruction, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub running: Option<u64>,
    /// The lines that its processes printed.
    pub lines: Vec<String>,
    /// How it ended.
    pub ended: Option<Ended>,
}

#[derive(Debug, Clone)]
pub struct Ended {
    /// The status from `wait4`.
    pub wait_status: i32,
    /// Its standard output.
    pub output: String,
    /// The time at which the exit was reported.
    pub at: SystemTime,
}

impl Ended {
    /// The exit code in Kubernetes' convention: 128 + n for signal n.
    pub const fn code(&self) -> i32 {
        match self.wait_status & 0x7f {
            0 => (self.wait_status >> 8) & 0xff,
            signal => 128 + signal,
        }
    }

    /// The time of the app's last act, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub fn exit_ns(&self) -> Option<u64> {
        let line = self.output.lines().last()?;
        line.strip_prefix("exit ")?.parse().ok()
    }
}

/// The runs of one container, latest last.
#[derive(Debug, Clone, Default)]
pub struct ContainerRecord {
    /// Empty until it is created.
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, Clone)]
pub struct PodRecord {
    /// The spec that the test requested.
    pub spec: PodSpec,
    /// By container name.
    pub containers: BTreeMap<String, ContainerRecord>,
    /// The manifest up to the status, as JSON.
    pub manifest: Arc<str>,
    /// The prefix of ids in its status.
    pub scheme: &'static str,
    /// When the API server set a deletion timestamp.
    pub deleted: Option<SystemTime>,
    /// Calls of the CNI plugin.
    pub added: Vec<Added>,
    /// Failed steps.
    pub failures: Vec<String>,
    /// The value of `containers` after each change, oldest first.
    pub history: Vec<(Instant, BTreeMap<String, ContainerRecord>)>,
}

/// All pods of a node by UID.
#[derive(Debug, Default)]
pub struct Ledger {
    pods: Mutex<BTreeMap<String, PodRecord>>,
    changed: Condvar,
}

impl Ledger {
    pub fn pods(&self) -> MutexGuard<'_, BTreeMap<String, PodRecord>> {
        // A test that panicked while it read has not corrupted them.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self, uid: &str, spec: &PodSpec, manifest: Arc<str>, scheme: &'static str) {
        let containers = spec.init_containers.iter().chain(&spec.containers);
        let names = containers.map(|container| &container.name);
        let containers = names
            .map(|name| (name.clone(), ContainerRecord::default()))
            .collect();
        let record = PodRecord {
            spec: spec.clone(),
            containers,
            manifest,
            scheme,
            deleted: None,
            added: Vec::new(),
            failures: Vec::new(),
            history: Vec::new(),
        };
        self.pods().insert(uid.to_owned(), record);
    }

    /// Changes a pod, and wakes waiting threads.
    pub fn change<T>(&self, uid: &str, change: impl FnOnce(&mut PodRecord) -> T) -> Option<T> {
        let mut pods = self.pods();
        let record = pods.get_mut(uid)?;
        let outcome = change(record);
        record
            .history
            .push((Instant::now(), record.containers.clone()));
        drop(pods);
        self.changed.notify_all();
        Some(outcome)
    }

    /// Removes a pod.
    pub fn strike(&self, uid: &str) {
        self.pods().remove(uid);
        self.changed.notify_all();
    }

    /// Waits until `found` returns a value for a pod.
    ///
    /// # Panics
    ///
    /// If it takes longer than [`patience`], or if a step of one of the
    /// pod's containers fails.
    pub fn wait<T>(&self, uid: &str, what: &str, found: impl Fn(&PodRecord) -> Option<T>) -> T {
        let deadline = Instant::now() + patience();
        let mut pods = self.pods();
        loop {
            let record = pods.get(uid).expect("the pod is on its node");
            if let Some(outcome) = found(record) {
                return outcome;
            }
            let failures = record.failures.clone();
            if !failures.is_empty() {
                drop(pods);
                panic!("waited for {what}, but {failures:?}");
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let containers = record.containers.clone();
                drop(pods);
                panic!("gave up waiting for {what}; the pod's containers: {containers:#?}");
            }
            let waited = self.changed.wait_timeout(pods, left);
            pods = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads events until the last shim and the node have closed the pipe.
    pub fn follow(&self, events: PipeReader) {
        for line in BufReader::new(events).lines().map_while(Result::ok) {
            let event: Event = serde_json::from_str(&line).expect("shims write events");
            self.change(&event.uid, |record| happened(record, &event));
        }
    }
}

fn happened(record: &mut PodRecord, event: &Event) {
    let attempts = record
        .containers
        .values_mut()
        .flat_map(|container| &mut container.attempts);
    let mut of_event = attempts.filter(|attempt| attempt.id == event.id);
    match (&event.what, of_event.next()) {
        (What::Added(added), _) => record.added.push(added.clone()),
        (What::Failed(reason), _) => record.failures.push(reason.clone()),
        (What::Created { pid }, Some(attempt)) => attempt.pid = Some(*pid),
        (What::Started, Some(attempt)) => attempt.started = true,
        (What::Running { at_ns }, Some(attempt)) => {
            attempt.started = true;
            attempt.running = Some(*at_ns);
        }
        (What::Line(line), Some(attempt)) => attempt.lines.push(line.clone()),
        (
            What::Ended {
                wait_status,
                output,
            },
            Some(attempt),
        ) => {
            attempt.ended = Some(Ended {
                wait_status: *wait_status,
                output: output.clone(),
                at: SystemTime::now(),
            });
        }
        // The sandbox belongs to no container.
        (_, None) => {}
    }
}
