//! The agent is killed at every boundary of its actions: before and after each kind of action, and within actions that
//! have more than one part. The next agent starts, and the outcome is the same as without the kill.
//!
//! The agent that is killed is a separate build, which stops at a named kill point
//! (`cargo build --workspace --features usher-agent/boundaries --bin usher-agent-boundaries`). Needs root, built
//! binaries and the programs `ip`, `nft` and `nsenter`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod after;
mod scenario;
mod stops;

use std::collections::BTreeSet;
use std::path::Path;

use usher_core::Action;
use usher_tests::privilege;
use usher_tests::synthetic::Doomed;
use usher_tests::synthetic::clock::eventually;

use crate::scenario::{Scenario, Step};

/// Kill points within actions, and between them.
const WITHIN: [&str; 13] = [
    "request-due",
    "request-answered",
    "answer-due",
    "signalled",
    "reader-bound",
    "table-made",
    "ports-released",
    "table-deleted",
    "journal-due",
    "journal-written",
    "event-due",
    "event-answered",
    "holder-order-sent",
];
/// Kill points in the write of a file that survives a restart.
const WRITING: [&str; 3] = ["file-begun", "file-whole", "file-kept"];
const FILES: [&str; 5] = [
    "config.yaml",
    "timeline.jsonl",
    "node-annotations.json",
    "node-labels.json",
    "namespaces.json",
];

/// The whole scenario with two pods, and an agent that is killed at this point.
fn killed_at(place: &str) {
    let scenario = Scenario::set(place);
    let doomed = Doomed::start(&scenario.node, &scenario.server, place);
    eventually("the agent", || doomed.is_there() || doomed.serves());
    let mut doomed = Some(doomed);
    let mut living = None;
    for step in scenario::STEPS {
        if let Some(killed) = doomed.take_if(|doomed| doomed.is_there()) {
            living = Some(after::the_kill(&scenario, step, killed));
        }
        if step == Step::Leave {
            after::the_end(&scenario, place);
        }
        scenario.act(step);
        if let Some(doomed) = &doomed {
            let what = format!("{step:?} or {place}");
            eventually(&what, || {
                doomed.is_there() || scenario.is_done(step, doomed.log())
            });
        }
        if let Some(killed) = doomed.take_if(|doomed| doomed.is_there()) {
            living = Some(after::the_kill(&scenario, step, killed));
        }
        if let Some(agent) = &living {
            let what = format!("{step:?} after a kill at {place}");
            eventually(&what, || scenario.is_done(step, agent.log()));
        }
    }
    if let Some(killed) = doomed.take() {
        eventually(place, || killed.is_there());
        living = Some(after::the_kill(&scenario, Step::Leave, killed));
    }
    after::all_is_well(&scenario, &living.unwrap(), place);
}

fn killed_at_each<'places>(
    places: impl Iterator<Item = &'places str>,
    form: impl Fn(&str) -> String,
) {
    if !privilege::granted_with(&["nft", "nsenter"]) {
        return;
    }
    for place in places {
        killed_at(&form(place));
    }
}

/// The kinds of actions in parts that run in parallel, without those of held stop signals.
fn part(number: usize, parts: usize) -> impl Iterator<Item = &'static str> {
    let kinds = Action::KINDS.iter().copied();
    let kinds = kinds.filter(|kind| !stops::KINDS.contains(kind));
    kinds.skip(number).step_by(parts)
}

#[test]
fn before_each_action() {
    killed_at_each(part(0, 2), |kind| format!("before:{kind}"));
}

#[test]
fn before_each_other_action() {
    killed_at_each(part(1, 2), |kind| format!("before:{kind}"));
}

#[test]
fn after_each_action() {
    killed_at_each(part(0, 2), |kind| format!("after:{kind}"));
}

#[test]
fn after_each_other_action() {
    killed_at_each(part(1, 2), |kind| format!("after:{kind}"));
}

#[test]
fn around_each_action_of_held_stop_signals() {
    if !privilege::granted() {
        return;
    }
    for kind in stops::KINDS {
        for place in ["before", "after"] {
            stops::killed_at(&format!("{place}:{kind}"));
        }
    }
}

/// The worker stops before the drain request, and before it reports the response.
#[test]
fn within_a_drain() {
    if !privilege::granted() {
        return;
    }
    for place in ["request-due", "request-answered"] {
        stops::killed_at(place);
    }
}

#[test]
fn within_actions() {
    killed_at_each(WITHIN.into_iter(), str::to_owned);
}

#[test]
fn while_a_file_is_written() {
    for place in WRITING {
        killed_at_each(FILES.into_iter(), |file| format!("{place}:{file}"));
    }
}

/// Fails if the agent has a kill point that no test uses.
#[test]
fn every_kill_point_is_covered() {
    let mut found = BTreeSet::new();
    for source in ["../agent/src", "../agent/client/src"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        collect(&source, &mut found);
    }
    let known = WITHIN.iter().chain(&WRITING).chain(&["before", "after"]);
    let known: BTreeSet<String> = known.map(|place| (*place).to_owned()).collect();
    assert_eq!(found, known);
}

fn collect(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let calls = text.split("crash_point::reach(\"").skip(1);
        found.extend(calls.filter_map(|call| Some(call.split_once('"')?.0.to_owned())));
    }
}

/// The released programs do not contain the code that reads the variables.
#[test]
fn released_programs_have_no_kill_points() {
    if !privilege::granted() {
        return;
    }
    for name in ["usher-agent", "usher"] {
        let path = usher_tests::synthetic::program::beside_this(name).unwrap();
        let program = std::fs::read(path).unwrap();
        let is_there = program
            .windows(b"USHER_BOUNDARY".len())
            .any(|window| window == b"USHER_BOUNDARY");
        assert!(!is_there, "{name}");
    }
}
