//! What would change what usher does with a pod: of its mode, its opt-outs and what it waits for.

use serde::{Deserialize, Serialize};
use usher_core::{
    decision::NotApplicable,
    hold::NotHeld,
    settings::{annotation, mode::Mode},
};

use super::{Case, facts::State};

/// Something that would change what becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What would happen.
    pub then: String,
    /// What has to be for it: a command, a piece of YAML, or what is waited for.
    pub when: String,
}

pub(super) fn changes(case: &Case<'_>) -> Vec<Change> {
    if case.is_over() {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let mut change = |then: String, when: String| changes.push(Change { then, when });
    let finishes = case.plan.not_ours.is_none();
    if let Some(not_ours) = &case.plan.not_ours {
        let_in(case, not_ours, &mut change);
    }
    if finishes && !case.plan.sidecars.is_empty() {
        quit(case, &mut change);
    }
    match &case.plan.not_held {
        None => hold(case, &mut change),
        Some(NotHeld::OptedOut) => change(
            "connections of its apps wait until its sidecar is ready".to_owned(),
            format!("without {}", case.opt_out(annotation::HOLD)),
        ),
        // Whatever its annotations say, none of its connections would wait.
        Some(_) => {}
    }
    changes
}

fn let_in(case: &Case<'_>, why: &NotApplicable, change: &mut dyn FnMut(String, String)) {
    match why {
        NotApplicable::NoSidecar => change(
            "a container of it is shown out when the others have ended".to_owned(),
            Case::template_annotation(annotation::SIDECARS, "NAME"),
        ),
        NotApplicable::ExcludedNamespace => change(
            "usher looks after it".to_owned(),
            format!(
                "excludedNamespaces of the configuration without {}",
                case.facts.namespace
            ),
        ),
        // The end of the last one is not what it is for.
        NotApplicable::NeverFinishes { .. }
        | NotApplicable::NativeOnly { .. }
        | NotApplicable::NoApp => {}
    }
}

fn quit(case: &Case<'_>, change: &mut dyn FnMut(String, String)) {
    let steps: Vec<String> = case
        .plan
        .sidecars
        .iter()
        .filter_map(|sidecar| {
            Some(format!(
                "{} by {}",
                sidecar.name,
                sidecar.ladder.first()?.step
            ))
        })
        .collect();
    let shown_out = format!("{} is shown out", steps.join(", "));
    let running: Vec<&str> = case
        .apps()
        .filter(|app| case.ended_for_good(app).is_none())
        .map(|app| &app.name[..])
        .collect();
    if let Some(place) = case.opted_out_of_quit() {
        change(shown_out, format!("without {place}"));
        return;
    }
    match case.seen.modes.map(|modes| modes.quit) {
        Some(Mode::Enforce) if !running.is_empty() => {
            change(
                shown_out,
                format!("{} ends for good", running.join(" and ")),
            );
        }
        Some(Mode::Observe | Mode::Off) => {
            let after = if running.is_empty() {
                ""
            } else {
                ", when its apps have ended"
            };
            change(
                format!("{shown_out}{after}"),
                case.enforce(annotation::QUIT),
            );
        }
        _ => {}
    }
}

fn hold(case: &Case<'_>, change: &mut dyn FnMut(String, String)) {
    let begun = case
        .apps()
        .any(|app| !matches!(app.status.state, State::Waiting { .. }));
    let armed = case.newest(&["hold-armed", "hold-released", "hold-adopted"]);
    let is_armed = armed.is_some_and(|entry| entry.decision != "hold-released");
    let doors = case.plan.doors();
    let sidecars: Vec<&str> = doors.iter().map(|door| &door.sidecar[..]).collect();
    match case.seen.modes.map(|modes| modes.hold) {
        Some(Mode::Enforce) if is_armed => change(
            "the connections that wait go on".to_owned(),
            format!(
                "{} is ready, or the deadline of {:?} comes",
                first(&sidecars),
                case.plan.tuning.hold_deadline
            ),
        ),
        Some(Mode::Observe | Mode::Off) => {
            let next = if begun {
                "in the next pod like it "
            } else {
                ""
            };
            change(
                format!(
                    "{next}connections of its apps wait until {} is ready",
                    first(&sidecars)
                ),
                case.enforce(annotation::HOLD),
            );
        }
        _ => {}
    }
}

fn first<'name>(names: &[&'name str]) -> &'name str {
    names.first().copied().unwrap_or("its sidecar")
}
