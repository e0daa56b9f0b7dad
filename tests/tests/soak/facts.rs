//! The outcome of a pod, from its processes and the kernel. Times are nanoseconds of `CLOCK_MONOTONIC`.

use usher_tests::synthetic::ledger::{Attempt, Ended, PodRecord};

use crate::plan::{PodPlan, app_name};

/// The last port of a mesh's proxy to become ready.
const READY: &str = "15021";

/// A removed pod.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Its plan.
    pub(crate) plan: PodPlan,
    pub(crate) uid: String,
    /// The start of its creation.
    pub(crate) made: u64,
    /// Right before the last of its apps was requested to exit for good.
    pub(crate) end_requested: Option<u64>,
    /// The start of its removal.
    pub(crate) gone: u64,
    /// It had enough time without faults after that.
    pub(crate) settled: bool,
    /// Its sidecars, in the order of the plan.
    pub(crate) sidecars: Vec<Vec<Life>>,
    /// The result of its first app's connection.
    pub(crate) connection: Connection,
    /// The agent replied to the CNI plugin in time, before the first process.
    pub(crate) answered: bool,
    /// The time at which its sidecar was ready.
    pub(crate) ready: Option<u64>,
    /// usher's table was in its network namespace at the end.
    pub(crate) table: bool,
    /// The output of `usher explain` before the pod was removed, if it reported a problem.
    pub(crate) explained: String,
}

/// One run of a sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Quit requests.
    pub(crate) asks: Vec<(u64, String)>,
    pub(crate) terms: Vec<u64>,
    /// Its exit code.
    pub(crate) code: Option<i32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) ran: Option<u64>,
    /// The time of the successful connect.
    pub(crate) connected: Option<u64>,
    /// The time of the failure.
    pub(crate) failed: Option<u64>,
}

impl Life {
    /// The times of all requests and signals.
    pub(crate) fn touched(&self) -> impl Iterator<Item = u64> {
        let asks = self.asks.iter().map(|(at, _)| *at);
        asks.chain(self.terms.iter().copied())
    }
}

/// The runs of the sidecars of a pod.
pub(crate) fn sidecars(plan: &PodPlan, record: &PodRecord) -> Vec<Vec<Life>> {
    let lives = |sidecar: &crate::sidecar::Sidecar| {
        let name = sidecar.stand_in().container.name;
        let container = record.containers.get(&name);
        let attempts = container.map_or(&[][..], |container| &container.attempts);
        attempts.iter().map(life).collect()
    };
    plan.sidecars.iter().map(lives).collect()
}

fn life(attempt: &Attempt) -> Life {
    let mut life = Life {
        code: attempt.ended.as_ref().map(Ended::code),
        ..Life::default()
    };
    for line in &attempt.lines {
        let mut words = line.splitn(4, ' ');
        let kind = words.next().unwrap_or_default();
        let at = words.next().and_then(|word| word.parse().ok());
        match (kind, at) {
            ("term", Some(at)) => life.terms.push(at),
            // Requests that only read use GET.
            ("request", Some(at)) => {
                let port = words.next().unwrap_or_default();
                let what = words.next().unwrap_or_default();
                if !what.starts_with("GET ") {
                    life.asks.push((at, format!("{port} {what}")));
                }
            }
            _ => {}
        }
    }
    life
}

/// The connection of the first app's first run.
pub(crate) fn connection(record: &PodRecord) -> Connection {
    let container = record.containers.get(&app_name(0));
    let Some(attempt) = container.and_then(|container| container.attempts.first()) else {
        return Connection::default();
    };
    let stamp = |beginning: &str| {
        let mut lines = attempt.lines.iter();
        let line = lines.find(|line| line.starts_with(beginning))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    Connection {
        ran: attempt.running,
        connected: stamp("connected "),
        failed: stamp("failed-to-connect "),
    }
}

/// Whether the plugin's first call got its reply long before its timeout.
pub(crate) fn answered(plan: &PodPlan, record: &PodRecord) -> bool {
    let limit = plan.spec().announced.unwrap_or_default();
    let first = record.added.first();
    first.is_some_and(|added| added.code == Some(0) && added.took < limit * 4 / 5)
}

/// The time at which the first run of the first sidecar was ready.
pub(crate) fn ready(plan: &PodPlan, record: &PodRecord) -> Option<u64> {
    let name = plan.sidecars.first()?.stand_in().container.name;
    let attempt = record.containers.get(&name)?.attempts.first()?;
    let beginning = format!("listening {READY} ");
    let mut lines = attempt.lines.iter();
    let line = lines.find(|line| line.starts_with(&beginning))?;
    line.rsplit(' ').next()?.parse().ok()
}
