//! A sidecar in an unexpected state: it does not start, restarts again and again, does not become ready, or ended
//! before its apps.

use usher_core::{recipe::Stage, settings::annotation};

use super::{Finding, Id, short};
use crate::explain::{
    Case,
    case::names,
    facts::{Container, Ended, State, Waiting, non_empty},
};

/// Time for a sidecar to become ready after its start.
pub(in crate::explain) const READY_MS: u64 = 60_000;
/// The number of restarts that makes a loop, if the last one is recent.
const LOOP: u64 = 3;
pub(in crate::explain) const RECENT_MS: u64 = 600_000;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    if case.is_over() {
        return Vec::new();
    }
    case.servants()
        .filter_map(|sidecar| of_sidecar(case, sidecar))
        .collect()
}

fn of_sidecar(case: &Case<'_>, sidecar: &Container) -> Option<Finding> {
    match &sidecar.status.state {
        State::Waiting(reason) => not_running(case, sidecar, reason),
        State::Running(since) => last_of_loop(case, sidecar)
            .map(|end| restarts(case, sidecar, end))
            .or_else(|| not_ready(case, sidecar, (*since)?)),
        State::Ended(end) => ended(case, sidecar, end),
    }
}

/// The last run of a container that restarts again and again.
pub(in crate::explain) fn last_of_loop<'pod>(
    case: &Case<'_>,
    container: &'pod Container,
) -> Option<&'pod Ended> {
    let status = &container.status;
    let last = status.last.as_ref().filter(|_| status.restarts >= LOOP);
    last.filter(|end| ended_recently(case, end))
}

pub(super) fn ended_recently(case: &Case<'_>, end: &Ended) -> bool {
    let is_recent = |at: u64| case.seen.now_ms.saturating_sub(at) < RECENT_MS;
    end.finished_ms.is_some_and(is_recent)
}

fn not_running(case: &Case<'_>, sidecar: &Container, reason: &str) -> Option<Finding> {
    let waiting = sidecar.waiting()?;
    match (waiting, &sidecar.status.last) {
        (Waiting::CrashLoop, Some(end)) => return Some(restarts(case, sidecar, end)),
        (Waiting::Starting, _) => return None,
        _ => {}
    }
    let (name, image) = (&sidecar.name, short(&sidecar.image));
    let cause = match waiting {
        Waiting::Image => format!("its image {image} cannot be pulled ({reason})"),
        Waiting::CrashLoop | Waiting::Failed | Waiting::Starting => reason.to_owned(),
    };
    let kind = case.servant_kind();
    let problem = format!("{kind} {name} does not start: {cause}{}", effect(case));
    let finding = Finding::error(Id::SidecarNotRunning, problem)
        .about(name)
        .because(sidecar.status_path(), format!("state.waiting: {reason}"))
        .because(sidecar.path("image"), image);
    let finding = ends(case, finding);
    let describe = format!(
        "kubectl -n {} describe pod {}",
        case.facts.namespace, case.facts.name
    );
    Some(match waiting {
        Waiting::Image => finding.fix(
            format!("Correct the {kind}'s image or its pull secret; the Events of the pod have the registry's error."),
            describe,
        ),
        Waiting::CrashLoop | Waiting::Failed | Waiting::Starting => finding.fix(
            "Find why the kubelet cannot start it; the Events of the pod have the error.",
            describe,
        ),
    })
}

fn restarts(case: &Case<'_>, sidecar: &Container, end: &Ended) -> Finding {
    let (kind, name, code) = (case.servant_kind(), &sidecar.name, end.code);
    let problem = format!(
        "{kind} {name} restarts again and again; its last run ended with exit code {code}{}",
        effect(case)
    );
    let reason = non_empty(&end.reason).unwrap_or("no reason");
    let finding = Finding::error(Id::SidecarNotRunning, problem)
        .about(name)
        .because(
            format!("{}.lastState.terminated", sidecar.status_path()),
            format!(
                "exitCode {code}, {reason}; restartCount {}",
                sidecar.status.restarts
            ),
        );
    ends(case, finding).fix(
        format!("Find why {name} ends: the log of its last run."),
        format!("{} --previous", case.logs(name)),
    )
}

fn not_ready(case: &Case<'_>, sidecar: &Container, since: u64) -> Option<Finding> {
    let is_late = case.seen.now_ms.saturating_sub(since) > READY_MS;
    // Once the apps ended, a proxy that drains is not ready.
    if sidecar.status.ready || !is_late || case.ends().is_some() {
        return None;
    }
    let (kind, name) = (case.servant_kind(), &sidecar.name);
    let problem = format!(
        "{kind} {name} has been running for {} and is not ready",
        case.since(since)
    );
    let fields = sidecar
        .probes
        .iter()
        .map(|probe| probe.field)
        .collect::<Vec<_>>();
    Some(
        Finding::warning(Id::SidecarNotReady, problem)
            .about(name)
            .because(sidecar.status_path(), "running, ready: false")
            .because_any(
                non_empty(&fields.join(", ")).map(|fields| (sidecar.place.clone(), fields)),
            )
            .fix(
                format!("Find why {name} is not ready: its log."),
                case.logs(name),
            ),
    )
}

/// A sidecar that ended before the apps and does not restart.
fn ended(case: &Case<'_>, sidecar: &Container, end: &Ended) -> Option<Finding> {
    if case.ends().is_some() {
        return None;
    }
    let (name, code) = (&sidecar.name, end.code);
    if code == 0 && case.plan.ends_by_itself(name) {
        return None;
    }
    if case.ended_for_good(sidecar).is_none() {
        return (sidecar.status.restarts >= LOOP).then(|| restarts(case, sidecar, end));
    }
    if code == 0 && case.has_no_app() {
        return None;
    }
    let at = end.finished_ms.map(|at| format!(", {}", case.ago(at)));
    let running = names(case.apps().filter(|app| app.runs()));
    let apps = match &running[..] {
        [] if case.has_no_app() => String::new(),
        [] => "; its apps have not started".to_owned(),
        [app] => format!("; app {app} runs without it"),
        apps => format!("; apps {} run without it", apps.join(", ")),
    };
    let kind = case.servant_kind();
    let problem = format!(
        "{kind} {name} ended with exit code {code}{} and does not restart{apps}",
        at.unwrap_or_default()
    );
    let reason = non_empty(&end.reason).unwrap_or("no reason");
    let finding = Finding::error(Id::SidecarEnded, problem)
        .about(name)
        .because(
            format!("{}.state.terminated", sidecar.status_path()),
            format!("exitCode {code}, {reason}"),
        )
        .because("spec.restartPolicy", case.policy(name).to_string());
    let mut planned = case.plan.sidecars.iter();
    let is_logs = planned.any(|one| one.name == *name && one.stage == Stage::Logs);
    if is_logs && code == 0 {
        return Some(finding.fix(
            format!("If {name} does the work of this pod, name it as an app, and the containers that serve it as sidecars."),
            Case::template_annotation(annotation::SIDECARS, &format!("{name}=app")),
        ));
    }
    let native = if case.has_no_app() {
        ""
    } else {
        " A native sidecar would restart."
    };
    Some(finding.fix(
        format!("Find what ended {name} (its log), and run the pod again.{native}"),
        case.logs(name),
    ))
}

/// The effect of a sidecar that does not run on the pod.
fn effect(case: &Case<'_>) -> &'static str {
    match case.ends() {
        Some(_) => ", so the pod does not finish although every app ended",
        None => "",
    }
}

/// Adds the exit codes of the apps as evidence, if all apps ended.
fn ends(case: &Case<'_>, finding: Finding) -> Finding {
    if case.ends().is_none() {
        return finding;
    }
    case.apps().fold(finding, |finding, app| {
        let end = case.ended_for_good(app);
        finding.because_any(end.map(|end| (app.status_path(), format!("exit code {}", end.code))))
    })
}
