//! Where a pod stands at present, in one sentence.

use serde::{Deserialize, Serialize};

use super::{
    Case, Finding,
    early_start::ago,
    facts::{Container, State},
};

/// How the timeline says that connections could wait no longer.
const AT_THE_DEADLINE: &str = "the deadline has come";

/// Where a pod stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Nothing is wrong.
    pub healthy: bool,
    /// In words.
    pub says: String,
}

/// Judges a pod that these things were found in.
pub(super) fn judge(case: &Case<'_>, findings: &[Finding]) -> Verdict {
    let found = findings.iter().any(|finding| finding.severity.is_trouble());
    let (is_well, says) = stand(case);
    Verdict {
        healthy: is_well && !found,
        says,
    }
}

fn stand(case: &Case<'_>) -> (bool, String) {
    let facts = case.facts;
    if let Some(reason) = &case.pod.terminal {
        return (reason == "Succeeded", format!("it has ended: {reason}"));
    }
    if case.pod.deleting {
        return (true, "it is being deleted".to_owned());
    }
    if let Some(finished) = case.finished_ms() {
        return ended(case, finished);
    }
    let natives = facts.init.iter().filter(|container| container.is_native);
    // They have ended where a regular container has begun, whatever the status still says.
    let begun = facts
        .containers
        .iter()
        .any(|container| container.started_ms().is_some());
    let ended =
        |init: &&Container| matches!(&init.status.state, State::Ended(end) if end.code == 0);
    let mut before = facts.init.iter().filter(|init| !init.is_native && !begun);
    if let Some(init) = before.find(|init| !ended(init)) {
        return waits(init, "init container");
    }
    let sidecars = case.sidecars().map(|(_sidecar, container)| container);
    let sidecars: Vec<&Container> = sidecars.chain(natives).collect();
    for app in case.apps() {
        if !app.runs() && case.ended_for_good(app).is_none() {
            return waits(app, "app");
        }
    }
    let unready = |container: &&&Container| !container.status.ready;
    if let Some(sidecar) = sidecars.iter().find(unready) {
        return (
            true,
            format!(
                "its apps have begun, and sidecar {} is not ready yet",
                sidecar.name
            ),
        );
    }
    let apps: Vec<String> = case
        .apps()
        .filter(|app| app.runs())
        .map(|app| running(case, app))
        .collect();
    if waited_in_vain(case) {
        return (
            false,
            format!(
                "{}; its sidecar was not ready when its connections could wait no longer, and they may be refused \
                 (usher request asks it, usher conns shows what it listens at)",
                apps.join(", ")
            ),
        );
    }
    let unready: Vec<&str> = case
        .apps()
        .filter(|app| app.runs() && !app.status.ready)
        .map(|app| &app.name[..])
        .collect();
    let sidecars: Vec<&str> = sidecars.iter().map(|sidecar| &sidecar.name[..]).collect();
    let beside = match sidecars[..] {
        [] => String::new(),
        [one] => format!(", beside its sidecar {one}, which is ready"),
        _ => format!(
            ", beside its sidecars {}, which are ready",
            sidecars.join(", ")
        ),
    };
    let not_ready = match unready[..] {
        [] => String::new(),
        _ => format!("; {} is not ready", unready.join(", ")),
    };
    (
        unready.is_empty(),
        format!("{}{beside}{not_ready}", apps.join(", ")),
    )
}

/// Whether the last hold came to its deadline: the kubelet calls a sidecar ready that has no readiness probe.
fn waited_in_vain(case: &Case<'_>) -> bool {
    let opened = case.decisions().iter().rev();
    let mut opened = opened.filter(|entry| entry.decision == "hold-released");
    opened
        .next()
        .is_some_and(|entry| entry.reason.starts_with(AT_THE_DEADLINE))
}

fn running(case: &Case<'_>, app: &Container) -> String {
    let since = app
        .started_ms()
        .map_or(String::new(), |at| format!(" since {}", ago(case, at)));
    format!(
        "app {} runs{}",
        app.name,
        since.trim_end_matches(" ago").replace("since", "for")
    )
}

fn ended(case: &Case<'_>, finished: u64) -> (bool, String) {
    let failed = case
        .ends()
        .is_some_and(|ends| ends.iter().any(|end| end.code != 0));
    let how = if failed {
        "its apps have ended, not all with 0"
    } else {
        "its apps have ended with 0"
    };
    let living: Vec<&str> = case
        .living()
        .iter()
        .map(|(sidecar, _)| &sidecar.name[..])
        .collect();
    let rest = match living[..] {
        [] => "and the kubelet ends the pod".to_owned(),
        _ => format!("and {} runs on", living.join(", ")),
    };
    // What runs on for longer than it may is a finding; until then this is the way of things.
    (!failed, format!("{how}, {}, {rest}", ago(case, finished)))
}

fn waits(container: &Container, what: &str) -> (bool, String) {
    let name = &container.name;
    let before = match &container.status.last {
        Some(end) => format!(" after exit code {}", end.code),
        None => String::new(),
    };
    match &container.status.state {
        State::Running { .. } => (true, format!("{what} {name} runs")),
        State::Ended(end) => (
            false,
            format!(
                "{what} {name} ended with exit code {} and is started again",
                end.code
            ),
        ),
        State::Waiting { reason } => {
            let begins = ["", "ContainerCreating", "PodInitializing"].contains(&reason.as_str());
            let reason = if reason.is_empty() {
                "it has not been created"
            } else {
                reason
            };
            (
                begins && before.is_empty(),
                format!("{what} {name} waits to be started{before} ({reason})"),
            )
        }
    }
}
