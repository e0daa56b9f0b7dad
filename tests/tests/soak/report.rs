//! The result of a soak: as text for people, as JSON for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::census::Census;
use crate::facts::{Facts, Life};
use crate::fault::Fault;
use crate::fault_log::Trouble;

/// The number of violations with all details.
const SHOWN: usize = 4;

/// A wrong outcome.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    /// `namespace/name` of the pod, or another subject.
    pub(crate) of: String,
    pub(crate) what: String,
    pub(crate) details: String,
}

/// The counts of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) rounds: Vec<u64>,
    pub(crate) seconds: u64,
    pods: usize,
    finished: usize,
    sidecars: BTreeMap<String, usize>,
    twists: BTreeMap<String, usize>,
    faults: BTreeMap<String, usize>,
    pub(crate) seen: BTreeSet<Fault>,
    requests: usize,
    signals: usize,
    sidecars_ended: usize,
    holds: usize,
    connected: usize,
    decisions: BTreeMap<String, usize>,
    pub(crate) events: BTreeMap<String, usize>,
    pub(crate) censuses: Vec<Census>,
    pub(crate) violations: Vec<Violation>,
}

impl Report {
    /// An empty report.
    pub(crate) fn of(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, facts: &Facts) {
        let plan = &facts.plan;
        self.pods += 1;
        self.finished += usize::from(facts.end_requested.is_some());
        for sidecar in &plan.sidecars {
            let kind = format!("{sidecar:?}");
            let kind = kind.split('(').next().unwrap_or_default().to_owned();
            *self.sidecars.entry(kind).or_default() += 1;
        }
        let variation = format!("{:?}", plan.variation);
        let variation = variation.split('(').next().unwrap_or_default().to_owned();
        *self.twists.entry(variation).or_default() += 1;
        let lives = || facts.sidecars.iter().flatten();
        self.requests += lives().map(|life| life.asks.len()).sum::<usize>();
        self.signals += lives().map(|life| life.terms.len()).sum::<usize>();
        let left = |life: &&Life| life.code.is_some();
        self.sidecars_ended += lives().filter(left).count();
        self.holds += usize::from(plan.hold.is_some());
        self.connected += usize::from(facts.connection.connected.is_some());
    }

    pub(crate) fn faults(&mut self, troubles: &[Trouble]) {
        for trouble in troubles {
            self.seen.insert(trouble.fault);
            *self
                .faults
                .entry(format!("{:?}", trouble.fault))
                .or_default() += 1;
        }
    }

    pub(crate) fn decided(&mut self, decision: &str) {
        *self.decisions.entry(decision.to_owned()).or_default() += 1;
    }

    pub(crate) fn json(&self) -> Value {
        let violations = self.violations.iter();
        json!({
            "seed": self.seed,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "pods": self.pods,
            "finished": self.finished,
            "sidecars": self.sidecars,
            "twists": self.twists,
            "faults": self.faults,
            "requests": self.requests,
            "signals": self.signals,
            "sidecarsEnded": self.sidecars_ended,
            "holds": self.holds,
            "connected": self.connected,
            "decisions": self.decisions,
            "events": self.events,
            "censuses": self.censuses.iter().map(Census::json).collect::<Vec<_>>(),
            "violations": violations
                .map(|one| json!({"of": one.of, "what": one.what, "details": one.details}))
                .collect::<Vec<_>>(),
        })
    }

    /// The whole report as text.
    pub(crate) fn text(&self) -> String {
        let list = |counts: &BTreeMap<String, usize>| {
            let pairs = counts.iter().map(|(what, count)| format!("{what} {count}"));
            pairs.collect::<Vec<_>>().join(", ")
        };
        let figures = |census: Option<&Census>| {
            census.map_or_else(String::new, |census| {
                format!(
                    "{} KiB, {} descriptors, {} threads",
                    census.resident_kib, census.descriptors, census.threads
                )
            })
        };
        let mut lines = vec![
            format!(
                "seed {}, rounds {:?}, {} s",
                self.seed, self.rounds, self.seconds
            ),
            format!("pods {}, of which finished {}", self.pods, self.finished),
            format!("sidecars: {}", list(&self.sidecars)),
            format!("twists: {}", list(&self.twists)),
            format!(
                "faults {}: {}",
                self.faults.values().sum::<usize>(),
                list(&self.faults)
            ),
            format!(
                "requests to quit {}, SIGTERM {}, sidecars ended {}",
                self.requests, self.signals, self.sidecars_ended
            ),
            format!("holds {}, connections made {}", self.holds, self.connected),
            format!("decisions: {}", list(&self.decisions)),
            format!("events: {}", list(&self.events)),
            format!("agent at first: {}", figures(self.censuses.first())),
            format!("agent at last: {}", figures(self.censuses.last())),
            format!("violations {}", self.violations.len()),
        ];
        for (number, violation) in self.violations.iter().enumerate() {
            lines.push(format!("  {}: {}", violation.of, violation.what));
            if number < SHOWN {
                lines.push(violation.details.clone());
            }
        }
        lines.join("\n")
    }

    /// Writes both formats into a directory.
    pub(crate) fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let name = format!("seed-{}", self.seed);
        std::fs::write(directory.join(&name).with_extension("txt"), self.text())?;
        let json = format!("{:#}\n", self.json());
        std::fs::write(directory.join(name).with_extension("json"), json)
    }
}
