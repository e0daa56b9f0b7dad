//! The present state of a pod, in one sentence.

use serde::{Deserialize, Serialize};
use usher_core::{decision::timeline::Detail, settings::annotation::PRE_STOP};

use super::{
    Case, Finding,
    case::{SUCCEEDED, millis, names},
    facts::{Container, Ended, Probe, STARTUP_PROBE, State, Waiting, non_empty},
    finding::sidecar_state::last_of_loop,
};

/// Time for a container to start after the pod's start, including the image pull.
const START_MS: u64 = 300_000;
/// Time for the kubelet to remove a pod after its grace period.
const DELETION_MS: u64 = 60_000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub healthy: bool,
    pub message: String,
}

pub(super) fn judge(case: &Case<'_>, findings: &[Finding]) -> Verdict {
    let trouble = findings.iter().any(|finding| finding.severity.is_trouble());
    let (healthy, message) = state(case);
    Verdict {
        healthy: healthy && !trouble,
        message,
    }
}

fn state(case: &Case<'_>) -> (bool, String) {
    let facts = case.facts;
    if let Some(reason) = &case.pod.terminal {
        return (reason == SUCCEEDED, format!("the pod ended: {reason}"));
    }
    if case.pod.deleting {
        return deletion(case);
    }
    if let Some(finished) = case.finished_ms() {
        return ended(case, finished);
    }
    // Once a regular container started, the init containers ended, even if their status is outdated.
    let mut containers = facts.containers.iter();
    let started = containers.any(|container| container.started_ms().is_some());
    let init = facts
        .init
        .iter()
        .filter(|init| !init.is_native && !started)
        .find(|init| !matches!(&init.status.state, State::Ended(end) if end.code == 0));
    if let Some(init) = init {
        return not_running(case, init, "init container");
    }
    let app = case
        .apps()
        .find(|app| !app.runs() && case.ended_for_good(app).is_none());
    if let Some(app) = app {
        return not_running(case, app, "app");
    }
    if case.has_no_app() {
        return without_app(case);
    }
    running(case)
}

fn deletion(case: &Case<'_>) -> (bool, String) {
    let (message, held_stops) = (overdue_deletion(case), held_stops(case));
    let healthy = message.is_none();
    let message = message.unwrap_or_else(|| "the pod is being deleted".to_owned());
    (healthy, format!("{message}{held_stops}"))
}

/// A pod that is still there long after the grace period of its deletion.
fn overdue_deletion(case: &Case<'_>) -> Option<String> {
    let end = case.facts.grace_end_ms?;
    if case.seen.now_ms.saturating_sub(end) < DELETION_MS {
        return None;
    }
    let regular = case.facts.containers.iter();
    let running = names(regular.chain(case.natives()).filter(|one| one.runs())).join(", ");
    let running = non_empty(&running).map(|names| format!("; still running: {names}"));
    let ago = case.ago(end);
    let running = running.unwrap_or_default();
    Some(format!("the pod should have ended {ago}{running}"))
}

/// The containers whose stop signals wait, as a part of a sentence.
fn held_stops(case: &Case<'_>) -> String {
    let mut held = Vec::new();
    for entry in case.decisions() {
        let container = entry.container.as_deref();
        match &entry.detail {
            Detail::LingerHeld | Detail::PreStopHeld => held.extend(container),
            Detail::LingerReleased { .. } | Detail::PreStopReleased { .. } => {
                held.retain(|one| Some(*one) != container);
            }
            _ => {}
        }
    }
    // An agent that ends releases what it holds, and reports nothing.
    let obsolete = held.len().saturating_sub(case.seen.held_stops);
    let held = held.split_off(obsolete);
    let is_held = |container: &&Container| held.contains(&&container.name[..]);
    let apps = names(case.apps().filter(|app| app.runs()).filter(is_held)).join(", ");
    let sidecars = names(case.running_sidecars().filter(is_held)).join(", ");
    let mut message = String::new();
    if !apps.is_empty() {
        message += &format!("; the stop signal of app {apps} waits as {PRE_STOP} requests");
    }
    if !sidecars.is_empty() {
        message += &format!("; the stop signal of {sidecars} waits until the apps have ended");
    }
    message
}

/// Every app runs or finished, and at least one runs.
fn running(case: &Case<'_>) -> (bool, String) {
    let mut apps = case.apps().filter(|app| app.runs());
    if let Some(message) = apps.find_map(|app| restarts(case, app)) {
        return (false, message);
    }
    let running: Vec<&Container> = case.apps().filter(|app| app.runs()).collect();
    let unready = || running.iter().copied().filter(|app| !app.status.ready);
    let healthy = unready().all(|app| starts(case, app));
    let not_ready = match &names(unready())[..] {
        [] => String::new(),
        unready => format!("; not ready: {}", unready.join(", ")),
    };
    let sidecars: Vec<&Container> = case.servants().collect();
    if let Some(sidecar) = sidecars.iter().find(|sidecar| !sidecar.status.ready) {
        // A sidecar that stays in this state is a finding.
        let state = sidecar_state(sidecar, case.servant_kind());
        return (healthy, format!("the apps started, and {state}{not_ready}"));
    }
    let apps: Vec<String> = running
        .iter()
        .map(|app| match app.started_ms() {
            Some(at) => format!("app {} has been running for {}", app.name, case.since(at)),
            None => format!("app {} is running", app.name),
        })
        .collect();
    let apps = apps.join(", ");
    if case.reached_deadline() {
        let message = format!(
            "{apps}; its sidecar was not ready at the hold deadline, so its connections may be refused \
             (usher request probes the sidecar, usher conns lists its listeners)"
        );
        return (false, message);
    }
    let sidecars = match &names(sidecars)[..] {
        [] => String::new(),
        [name] => format!("; sidecar {name} is ready"),
        names => format!("; sidecars {} are ready", names.join(", ")),
    };
    (healthy, format!("{apps}{sidecars}{not_ready}"))
}

/// A pod whose containers all are sidecars.
fn without_app(case: &Case<'_>) -> (bool, String) {
    let kind = case.servant_kind();
    let stopped = case
        .servants()
        .find(|one| !one.runs() && case.ended_for_good(one).is_none());
    if let Some(stopped) = stopped {
        return not_running(case, stopped, kind);
    }
    // A container that stays in this state is a finding.
    let state = match case.servants().find(|one| !one.status.ready) {
        Some(unready) => sidecar_state(unready, kind),
        None => match &names(case.servants())[..] {
            [name] => format!("{kind} {name} is ready"),
            names => format!("{kind}s {} are ready", names.join(", ")),
        },
    };
    (true, state)
}

/// The state of an app that runs, and that restarts again and again.
fn restarts(case: &Case<'_>, app: &Container) -> Option<String> {
    let Ended { code, reason, .. } = last_of_loop(case, app)?;
    let (name, restarts) = (&app.name, app.status.restarts);
    let reason = non_empty(reason).unwrap_or("no reason");
    Some(format!(
        "app {name} restarts again and again; its last run ended with exit code {code} ({reason}), restart {restarts}"
    ))
}

/// Whether a container that is not ready may still be starting: its probes have not had enough time to succeed.
fn starts(case: &Case<'_>, app: &Container) -> bool {
    let first = |probe: &Probe| {
        // Until the startup probe has succeeded, the kubelet runs no other.
        let periods = match probe.field {
            STARTUP_PROBE => probe.failures,
            _ => 3,
        };
        let time = probe.period.saturating_mul(periods);
        probe.initial_delay.saturating_add(time)
    };
    let time = app.probes.iter().map(first).max();
    let since = app
        .started_ms()
        .map(|at| case.seen.now_ms.saturating_sub(at));
    since < time.map(millis)
}

/// The state of a sidecar that is not ready.
fn sidecar_state(sidecar: &Container, kind: &str) -> String {
    let name = &sidecar.name;
    match &sidecar.status.state {
        State::Running(_) => format!("{kind} {name} is not ready"),
        State::Waiting(reason) => {
            let reason = non_empty(reason).unwrap_or("not created yet");
            let started = match &sidecar.status.last {
                Some(_) => "restarted",
                None => "started",
            };
            format!("{kind} {name} has not {started} ({reason})")
        }
        State::Ended(end) => format!("{kind} {name} ended with exit code {}", end.code),
    }
}

/// Whether a waiting container should have started: the pod was accepted long ago, and no init container runs.
fn is_overdue(case: &Case<'_>) -> bool {
    let facts = case.facts;
    let inits = || facts.init.iter().filter(|init| !init.is_native);
    let previous = inits()
        .filter_map(|init| init.newest_end()?.finished_ms)
        .max();
    let since = previous.max(facts.started_ms);
    since.is_some_and(|at| case.seen.now_ms.saturating_sub(at) > START_MS)
        && !inits().any(Container::runs)
}

fn ended(case: &Case<'_>, finished: u64) -> (bool, String) {
    let failed = case.ends().into_iter().flatten().any(|end| end.code != 0);
    let how = match failed {
        true => "the apps ended, not all with exit code 0",
        false => "the apps ended with exit code 0",
    };
    let servants = || case.servants().filter(|sidecar| !sidecar.is_native);
    let waiting: Vec<String> = servants()
        .filter(|sidecar| sidecar.is_waiting())
        .map(|sidecar| sidecar_state(sidecar, case.servant_kind()))
        .collect();
    let rest = match (
        &names(servants().filter(|one| one.runs()))[..],
        &waiting[..],
    ) {
        ([], []) => "the kubelet is ending the pod".to_owned(),
        ([name], []) => format!("{name} still runs"),
        (names, []) => format!("{} still run", names.join(", ")),
        (_, waiting) => waiting.join(", "),
    };
    // A sidecar that runs too long is a finding.
    (!failed, format!("{how}, {}; {rest}", case.ago(finished)))
}

fn not_running(case: &Case<'_>, container: &Container, kind: &str) -> (bool, String) {
    let what = format!("{kind} {}", container.name);
    let reason = match &container.status.state {
        State::Running(_) => {
            return match container.status.last.as_ref().filter(|end| end.code != 0) {
                Some(Ended { code, .. }) => {
                    let restarts = container.status.restarts;
                    let message = format!(
                        "{what} is running again after exit code {code}, restart {restarts}"
                    );
                    (false, message)
                }
                None => (true, format!("{what} is running")),
            };
        }
        State::Ended(Ended { code, .. }) => {
            return (
                false,
                format!("{what} ended with exit code {code} and will restart"),
            );
        }
        State::Waiting(reason) => &reason[..],
    };
    let shown = non_empty(reason).unwrap_or("not created yet");
    match &container.status.last {
        Some(Ended { code, .. }) => (
            false,
            format!("{what} has not restarted after exit code {code} ({shown})"),
        ),
        None => {
            let is_starting = container.waiting() == Some(Waiting::Starting);
            (
                is_starting && !is_overdue(case),
                format!("{what} has not started ({shown})"),
            )
        }
    }
}
