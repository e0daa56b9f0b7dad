//! A pod whose apps ended and whose sidecar still runs, so that its Job does not complete.

use usher_core::{
    decision::timeline::Detail,
    recipe::Purpose,
    settings::{annotation, mode::Mode},
};

use super::{Finding, Id};
use crate::explain::{
    Case,
    case::{millis, mode, names, sentence},
    facts::Container,
};

/// A sidecar may take this much longer than its steps.
const GRACE_MS: u64 = 5_000;

/// Time for a self-ending container to end: its controller polls the pod at intervals.
const SELF_ENDING_MS: u64 = 300_000;

/// Whether a self-ending container still runs, long after all others ended.
pub(in crate::explain) fn outlives(case: &Case<'_>, container: &Container) -> bool {
    if case.is_over() || !container.runs() || !case.plan.ends_by_itself(&container.name) {
        return false;
    }
    let mut others = case.facts.containers.iter();
    let ends: Option<Vec<Option<u64>>> = others
        .by_ref()
        .filter(|other| !case.plan.ends_by_itself(&other.name))
        .map(|other| Some(case.ended_for_good(other)?.finished_ms))
        .collect();
    let newest = ends.and_then(|ends| ends.into_iter().flatten().max());
    newest.is_some_and(|at| case.seen.now_ms.saturating_sub(at) > SELF_ENDING_MS)
}

/// Whether a sidecar runs longer than its termination takes.
pub(in crate::explain) fn stays(case: &Case<'_>, container: &Container) -> bool {
    let finished = case.finished_ms();
    let Some(finished) = finished.filter(|_| container.runs() && !case.is_over()) else {
        return false;
    };
    let requested = case.newest(|detail| {
        matches!(
            detail,
            Detail::QuitAccepted { .. } | Detail::DrainAccepted { .. }
        )
    });
    let sidecar = case
        .plan
        .sidecars
        .iter()
        .find(|one| one.name == container.name);
    let takes = sidecar
        .filter(|_| requested.is_some())
        .map_or(0, |sidecar| {
            let takes = |purpose| {
                let steps = sidecar.ladder.iter();
                steps
                    .filter(move |step| step.purpose == purpose)
                    .map(|step| step.takes)
            };
            let quit = takes(Purpose::Quit).max().unwrap_or_default();
            millis(quit + takes(Purpose::Drain).sum())
        });
    let latest = [millis(case.plan.tuning.quit_delay), takes, GRACE_MS]
        .into_iter()
        .fold(finished, u64::saturating_add);
    case.seen.now_ms > latest || gave_up(case)
}

fn gave_up(case: &Case<'_>) -> bool {
    case.newest(|detail| matches!(detail, Detail::GaveUp))
        .is_some()
}

/// The containers that keep the finished pod: one that should have ended by itself, or else its sidecars.
pub(in crate::explain) fn staying<'pod>(case: &Case<'pod>) -> Vec<&'pod str> {
    let mut containers = case.facts.containers.iter();
    match containers.find(|container| outlives(case, container)) {
        Some(container) => vec![&container.name],
        None => names(case.running_sidecars().filter(|one| stays(case, one))),
    }
}

pub(in crate::explain) fn find(case: &Case<'_>) -> Option<Finding> {
    let finished = case.finished_ms()?;
    let names = staying(case);
    let first = names.first()?;
    if let Some(container) = case.facts.container(first)
        && case.plan.ends_by_itself(first)
    {
        return Some(self_ending(case, container, finished));
    }
    let problem = format!(
        "every app ended {} and {} still runs, so the pod does not finish",
        case.ago(finished),
        names.join(", ")
    );
    let mut finding = Finding::error(Id::SidecarStays, problem).about(first);
    for app in case.apps() {
        if let Some(end) = case.ended_for_good(app) {
            let at = end.finished_ms.map(|at| format!(", {}", case.ago(at)));
            let message = format!("exit code {}{}", end.code, at.unwrap_or_default());
            finding = finding.because(app.status_path(), message);
        }
    }
    Some(advise(case, finding, first))
}

fn self_ending(case: &Case<'_>, container: &Container, finished: u64) -> Finding {
    let name = &container.name;
    let problem = format!(
        "every app ended {}, and {name} still runs: its driver or controller ends it once all other containers have ended, and \
         usher does not",
        case.ago(finished)
    );
    let finding = Finding::error(Id::SidecarStays, problem)
        .about(name)
        .because(container.status_path(), "running")
        .because(container.path("image"), super::short(&container.image));
    advise(case, finding, name)
}

/// Adds what ends a container of a finished pod.
pub(in crate::explain) fn advise(case: &Case<'_>, finding: Finding, name: &str) -> Finding {
    if case.plan.ends_by_itself(name) {
        return finding.fix(
            format!("Find why {name} is not ended: its log, and that of its driver or controller. Or delete this pod."),
            case.logs(name),
        );
    }
    let namespace = &case.facts.namespace;
    let delete = format!("kubectl -n {namespace} delete pod {}", case.facts.name);
    if let Some(place) = case.opted_out_of_quit() {
        return finding.because("opt-out", place).fix(
            "Allow usher to terminate the pod's sidecars.",
            Case::template_annotation(annotation::QUIT, "true"),
        );
    }
    if let Some(excluded) = case.excluded() {
        return finding.because("configuration", excluded).fix(
            "Remove the namespace from excludedNamespaces in the configuration, or delete this pod.",
            delete,
        );
    }
    if let Some(hidden) = case.hidden() {
        return finding.because_of(Some(hidden)).fix(
            "Let the app end its sidecar, or use another RuntimeClass. Or delete this pod.",
            delete,
        );
    }
    let gave_up = gave_up(case);
    let last = case.newest(|detail| match detail {
        Detail::GaveUp => true,
        Detail::WouldQuit
        | Detail::Skipped
        | Detail::NotApplicable
        | Detail::Waiting
        | Detail::StepFailed
        | Detail::QuitAccepted { .. } => !gave_up,
        _ => false,
    });
    let finding = finding.because_of(last);
    if gave_up {
        return finding.fix(
            "Follow the advice of the decision, or delete this pod.",
            delete,
        );
    }
    let modes = case.seen.modes.as_ref();
    match modes.map(|modes| modes.quit) {
        Some(Mode::Enforce) | None if !case.seen.agent => finding.fix(
            "The usher agent does not reply on this node: check that it runs.",
            "kubectl -n usher get pods -o wide",
        ),
        Some(Mode::Enforce) => finding.fix(
            format!("Find why {name} does not end: its log."),
            case.logs(name),
        ),
        _ => {
            let source = format!("mode of node {}", case.node());
            let message = modes.map_or("quit: unknown".to_owned(), |modes| {
                mode::text("quit", modes.quit, modes.quit_source.as_deref())
            });
            let action = "terminate the sidecar on this node";
            let (remedy, how) = case.enable(action, annotation::QUIT);
            finding.because(source, message).fix(sentence(&remedy), how)
        }
    }
}
