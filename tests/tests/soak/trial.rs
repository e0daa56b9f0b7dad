//! A round: pods and faults at the same time, then no faults, then the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::census::{self, Census};
use crate::facts::Facts;
use crate::fault_log::{FaultLog, Trouble};
use crate::judge;
use crate::lane::Stage;
use crate::life;
use crate::report::{Report, Violation};
use crate::schedule::{self, Round};

/// The longest delay of Events without faults.
const SENT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// The number of log lines for a pod.
const LINES: usize = 60;

/// Runs the first pods, and takes the snapshot after their removal.
pub(crate) fn warm(stage: &Stage) -> Census {
    let plan = schedule::first();
    life::live(&plan, &stage.node, &FaultLog::default());
    stage.with(|agent| agent.wait_metric("usher_pods", "", |pods| pods < 0.5));
    census::count(stage)
}

/// Runs a round with at most this number of pods at once.
pub(crate) fn play(
    stage: &Stage,
    round: &Round,
    crowd: usize,
    first: &Census,
    report: &mut Report,
) {
    let fault_log = FaultLog::default();
    let all: Mutex<Vec<Facts>> = Mutex::default();
    let broken: Mutex<Vec<String>> = Mutex::default();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (_, faults) in &round.faults {
            scope.spawn(|| {
                faults
                    .iter()
                    .for_each(|fault| stage.make(*fault, &fault_log));
            });
        }
        let mut living = Vec::new();
        for plan in &round.plans {
            while began.elapsed() < plan.at || living.len() >= crowd {
                std::thread::sleep(LOOK);
                living.retain(|one: &std::thread::ScopedJoinHandle<'_, ()>| !one.is_finished());
            }
            living.push(scope.spawn(|| {
                let live = || life::live(plan, &stage.node, &fault_log);
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(live)) {
                    Ok(facts) => all
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(facts),
                    Err(_) => {
                        let mut broken = broken.lock().unwrap_or_else(PoisonError::into_inner);
                        broken.push(plan.name.clone());
                    }
                }
            }));
        }
    });
    let facts = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let troubles = fault_log.troubles();
    report.faults(&troubles);
    for name in broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let details = "the panic message of the thread is above".to_owned();
        violate(
            report,
            name,
            "its life could not be played to its end".to_owned(),
            details,
        );
    }
    let census = sent(stage, first, report);
    report.censuses.push(census);
    judge_all(stage, &facts, &troubles, report);
}

/// Waits until nothing is left of the pods, and all Events are sent.
fn sent(stage: &Stage, first: &Census, report: &mut Report) -> Census {
    let end = Instant::now() + SENT;
    let queued = || stage.with(|agent| agent.metric("usher_events_queued", ""));
    while queued() > 0.5 && Instant::now() < end {
        std::thread::sleep(LOOK);
    }
    if queued() > 0.5 {
        violate(
            report,
            "agent".to_owned(),
            "Events wait for ever".to_owned(),
            String::new(),
        );
    }
    let (census, wrong) = census::settled(stage, first);
    for what in wrong {
        violate(report, "leak".to_owned(), what, format!("{census:?}"));
    }
    census
}

fn judge_all(stage: &Stage, all: &[Facts], troubles: &[Trouble], report: &mut Report) {
    let mut lines = std::mem::take(
        &mut *stage
            .log_lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    );
    lines.extend(stage.with(|agent| agent.log().lines()));
    let deaths = std::mem::take(&mut *stage.deaths.lock().unwrap_or_else(PoisonError::into_inner));
    for death in deaths {
        violate(report, "agent".to_owned(), death, String::new());
    }
    for line in lines.iter().filter(|line| {
        line["text"]
            .as_str()
            .is_some_and(|text| text.contains("panicked"))
    }) {
        violate(
            report,
            "agent".to_owned(),
            "panicked".to_owned(),
            line.to_string(),
        );
    }
    let mut of_pod: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for line in &lines {
        if let Some(uid) = line["uid"].as_str() {
            of_pod.entry(uid).or_default().push(line);
        }
    }
    for reason in reasons_on_node(stage) {
        if judge::unjustified_on_node(&report.seen, &reason) {
            let what = format!("the Event {reason} is not justified");
            violate(report, "node".to_owned(), what, String::new());
        }
    }
    let events = events(stage);
    for facts in all {
        report.add(facts);
        let none = Vec::new();
        let lines = of_pod.get(facts.uid.as_str()).unwrap_or(&none);
        let decided: Vec<String> = lines
            .iter()
            .filter_map(|line| line["decision"].as_str().map(str::to_owned))
            .collect();
        decided.iter().for_each(|decision| report.decided(decision));
        let mut wrong = judge::pod(facts, troubles);
        wrong.extend(judge::armed(facts, troubles, &decided));
        let none = Vec::new();
        let reasons = events.get(&facts.uid).unwrap_or(&none);
        for reason in reasons {
            *report.events.entry(reason.clone()).or_default() += 1;
            if judge::unjustified(facts, troubles, reason) {
                wrong.push(format!("the Event {reason} is not justified"));
            }
        }
        for due in judge::due(facts, troubles) {
            if !reasons.iter().any(|reason| reason == due) {
                wrong.push(format!("the Event {due} lacks"));
            }
        }
        for what in wrong {
            let pod = format!("{}/{}", facts.plan.namespace(), facts.plan.name);
            violate(report, pod, what, details(facts, troubles, lines));
        }
    }
}

fn details(facts: &Facts, troubles: &[Trouble], lines: &[&Value]) -> String {
    let from = lines.len().saturating_sub(LINES);
    let lines: Vec<String> = lines[from..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect();
    let near: Vec<String> = troubles
        .iter()
        .filter(|trouble| trouble.overlaps(facts.made.saturating_sub(40_000_000_000), facts.gone))
        .map(|trouble| format!("    {trouble:?}"))
        .collect();
    format!(
        "{facts:#?}\n  faults:\n{}\n  log:\n{}",
        near.join("\n"),
        lines.join("\n")
    )
}

/// The reasons of Events on the Node.
fn reasons_on_node(stage: &Stage) -> BTreeSet<String> {
    let events = stage.server.events().into_iter();
    let on_node = events.filter(|event| event["regarding"]["kind"] == "Node");
    on_node
        .filter_map(|event| event["reason"].as_str().map(str::to_owned))
        .collect()
}

/// The reasons of Events, by the UID of the pod.
fn events(stage: &Stage) -> BTreeMap<String, Vec<String>> {
    let mut by_pod: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in stage.server.events() {
        if let (Some(uid), Some(reason)) =
            (event["regarding"]["uid"].as_str(), event["reason"].as_str())
        {
            by_pod
                .entry(uid.to_owned())
                .or_default()
                .push(reason.to_owned());
        }
    }
    by_pod
}

fn violate(report: &mut Report, of: String, what: String, details: String) {
    report.violations.push(Violation { of, what, details });
}
