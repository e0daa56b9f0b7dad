//! Changes that would affect the pod: the node's mode, an opt-out, or an event that usher waits for.

use serde::{Deserialize, Serialize};
use usher_core::{
    decision::{NotApplicable, timeline::Detail},
    hold::NotHeld,
    settings::{annotation, mode::Mode},
};

use super::{Case, case::names, facts::Container, finding::end::unknown_helper};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub then: String,
    /// The condition: a command, a piece of YAML, or an event.
    pub when: String,
}

impl Change {
    fn new(then: impl Into<String>, when: impl Into<String>) -> Self {
        Self {
            then: then.into(),
            when: when.into(),
        }
    }
}

pub(super) fn changes(case: &Case<'_>) -> Vec<Change> {
    // usher cannot act in a pod whose processes are not visible.
    if case.is_over() || case.hidden().is_some() {
        return Vec::new();
    }
    let plan = &case.plan;
    let quit = match &plan.not_ours {
        Some(NotApplicable::NoSidecar) => Some(Change::new(
            "usher terminates the named container after the other containers end",
            Case::template_annotation(
                annotation::SIDECARS,
                unknown_helper::candidate(case).unwrap_or("NAME"),
            ),
        )),
        Some(NotApplicable::ExcludedNamespace) => Some(Change::new(
            "usher manages this pod",
            format!(
                "remove {} from excludedNamespaces in the configuration",
                case.facts.namespace
            ),
        )),
        // usher does not manage such pods.
        Some(
            NotApplicable::NeverFinishes { .. }
            | NotApplicable::NativeOnly { .. }
            | NotApplicable::NoApp,
        ) => None,
        None if plan.sidecars.is_empty() => None,
        None => quit(case),
    };
    let hold = match &plan.not_held {
        None => hold(case),
        Some(NotHeld::OptedOut) => Some(Change::new(
            "usher holds its apps' connections until its sidecar is ready",
            format!("remove {}", case.opt_out(annotation::HOLD)),
        )),
        // No annotation can enable a hold of this pod.
        Some(_) => None,
    };
    let helper = match &plan.not_ours {
        None => unknown_helper::candidate(case).map(|name| {
            Change::new(
                format!("usher terminates {name} as a sidecar, and then the other sidecars"),
                Case::template_annotation(annotation::SIDECARS, name),
            )
        }),
        Some(_) => None,
    };
    helper.into_iter().chain(quit).chain(hold).collect()
}

fn quit(case: &Case<'_>) -> Option<Change> {
    let sidecars = case.plan.sidecars.iter();
    let steps: Vec<String> = sidecars
        .filter_map(|one| Some(format!("{} by {}", one.name, one.ladder.first()?.step)))
        .collect();
    let then = format!("usher terminates {}", steps.join(", "));
    let running = names(case.apps().filter(|app| case.ended_for_good(app).is_none()));
    if let Some(place) = case.opted_out_of_quit() {
        return Some(Change::new(then, format!("remove {place}")));
    }
    match (case.seen.modes.as_ref()?.quit, &running[..]) {
        (Mode::Enforce, []) => None,
        (Mode::Enforce, apps) => {
            let when = format!("{} ends for good", apps.join(" and "));
            Some(Change::new(then, when))
        }
        (_, []) => Some(Change::new(then, case.enforce(annotation::QUIT))),
        (_, _) => Some(Change::new(
            format!("{then}, after its apps end"),
            case.enforce(annotation::QUIT),
        )),
    }
}

fn hold(case: &Case<'_>) -> Option<Change> {
    let held_ports = case.plan.held_ports();
    let sidecar = held_ports
        .first()
        .map_or("its sidecar", |port| &port.sidecar);
    let latest = case.newest(|detail| {
        matches!(
            detail,
            Detail::HoldArmed { .. } | Detail::HoldReleased { .. } | Detail::HoldAdopted { .. }
        )
    });
    let is_held = latest.is_some_and(|one| !matches!(one.detail, Detail::HoldReleased { .. }));
    match case.seen.modes.as_ref()?.hold {
        Mode::Enforce => is_held.then(|| {
            let deadline = case.plan.tuning.hold_deadline;
            let when = format!("{sidecar} is ready, or the deadline of {deadline:?} passes");
            Change::new("usher releases the held connections", when)
        }),
        Mode::Observe | Mode::Off => {
            let held = match case.apps().all(Container::is_waiting) {
                true => "its apps' connections",
                false => "the connections of the next pod like it",
            };
            let then = format!("usher holds {held} until {sidecar} is ready");
            Some(Change::new(then, case.enforce(annotation::HOLD)))
        }
    }
}
