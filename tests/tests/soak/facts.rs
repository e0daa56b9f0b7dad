//! What became of a pod, by its own account and the kernel's. Times are nanoseconds of `CLOCK_MONOTONIC`.

use usher_tests::synthetic::ledger::{Attempt, Ended, PodRecord};

use crate::story::{Story, app_name};

/// The port at which a mesh's proxy is ready last.
const READY: &str = "15021";

/// A pod that is gone.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// What it was to be.
    pub(crate) story: Story,
    /// Its UID.
    pub(crate) uid: String,
    /// When its making began.
    pub(crate) made: u64,
    /// Right before the last of its apps was requested to exit for good.
    pub(crate) end_requested: Option<u64>,
    /// When its removal began.
    pub(crate) gone: u64,
    /// It was left in peace for long enough after that.
    pub(crate) settled: bool,
    /// Its sidecars, in the story's order.
    pub(crate) guests: Vec<Vec<Life>>,
    /// What came of its first app's connection.
    pub(crate) visit: Visit,
    /// The agent answered the CNI plugin in time, so before there was a process.
    pub(crate) answered: bool,
    /// When its sidecar was ready.
    pub(crate) ready: Option<u64>,
    /// usher's table was in its network namespace in the end.
    pub(crate) table: bool,
    /// The output of `usher explain` before the pod was removed, if it reported a problem.
    pub(crate) explained: String,
}

/// One life of a sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Requests that are meant to end it.
    pub(crate) asks: Vec<(u64, String)>,
    /// SIGTERM.
    pub(crate) terms: Vec<u64>,
    /// The code that it ended with.
    pub(crate) code: Option<i32>,
}

/// A connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Visit {
    /// The app's first instruction.
    pub(crate) ran: Option<u64>,
    /// When it was made.
    pub(crate) connected: Option<u64>,
    /// When it failed.
    pub(crate) failed: Option<u64>,
}

impl Life {
    /// All times at which it was asked, in whatever way.
    pub(crate) fn touched(&self) -> impl Iterator<Item = u64> {
        let asks = self.asks.iter().map(|(at, _)| *at);
        asks.chain(self.terms.iter().copied())
    }
}

/// The lives of the sidecars of a pod.
pub(crate) fn guests(story: &Story, record: &PodRecord) -> Vec<Vec<Life>> {
    let lives = |guest: &crate::guest::Guest| {
        let name = guest.stand_in().container.name;
        let container = record.containers.get(&name);
        let attempts = container.map_or(&[][..], |container| &container.attempts);
        attempts.iter().map(life).collect()
    };
    story.guests.iter().map(lives).collect()
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
            // What only looks is asked by GET.
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

/// The connection of the first app's first life.
pub(crate) fn visit(record: &PodRecord) -> Visit {
    let container = record.containers.get(&app_name(0));
    let Some(attempt) = container.and_then(|container| container.attempts.first()) else {
        return Visit::default();
    };
    let stamp = |beginning: &str| {
        let mut lines = attempt.lines.iter();
        let line = lines.find(|line| line.starts_with(beginning))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    Visit {
        ran: attempt.running,
        connected: stamp("connected "),
        failed: stamp("failed-to-connect "),
    }
}

/// Whether the plugin's first call was answered long before it would have given up.
pub(crate) fn answered(story: &Story, record: &PodRecord) -> bool {
    let limit = story.spec().announced.unwrap_or_default();
    let first = record.added.first();
    first.is_some_and(|added| added.code == Some(0) && added.took < limit * 4 / 5)
}

/// When the first life of the first sidecar was ready.
pub(crate) fn ready(story: &Story, record: &PodRecord) -> Option<u64> {
    let name = story.guests.first()?.stand_in().container.name;
    let attempt = record.containers.get(&name)?.attempts.first()?;
    let beginning = format!("listening {READY} ");
    let mut lines = attempt.lines.iter();
    let line = lines.find(|line| line.starts_with(&beginning))?;
    line.rsplit(' ').next()?.parse().ok()
}
