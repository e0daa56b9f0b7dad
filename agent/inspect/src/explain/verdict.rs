//! The present state of a pod, in one sentence.

use serde::{Deserialize, Serialize};
use usher_core::{decision::timeline::Detail, hold::Opened};

use super::{
    Case, Finding,
    case::names,
    facts::{Container, Ended, State, non_empty},
};

/// The phase of a pod whose containers all ended with 0.
const SUCCEEDED: &str = "Succeeded";
/// The reasons of a container that starts for the first time.
const STARTING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub healthy: bool,
    pub says: String,
}

pub(super) fn judge(case: &Case<'_>, findings: &[Finding]) -> Verdict {
    let trouble = findings.iter().any(|finding| finding.severity.is_trouble());
    let (healthy, says) = state(case);
    Verdict {
        healthy: healthy && !trouble,
        says,
    }
}

fn state(case: &Case<'_>) -> (bool, String) {
    let facts = case.facts;
    if let Some(reason) = &case.pod.terminal {
        return (reason == SUCCEEDED, format!("the pod ended: {reason}"));
    }
    if case.pod.deleting {
        return (true, "the pod is being deleted".to_owned());
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
        return not_running(init, "init container");
    }
    let app = case
        .apps()
        .find(|app| !app.runs() && case.ended_for_good(app).is_none());
    if let Some(app) = app {
        return not_running(app, "app");
    }
    running(case)
}

/// Every app runs or ended for good, and at least one runs.
fn running(case: &Case<'_>) -> (bool, String) {
    let regular = case.sidecars().map(|(_, container)| container);
    let sidecars: Vec<&Container> = regular.chain(case.natives()).collect();
    if let Some(Container { name, .. }) = sidecars.iter().find(|sidecar| !sidecar.status.ready) {
        return (
            true,
            format!("the apps started, and sidecar {name} is not ready"),
        );
    }
    let running: Vec<&Container> = case.apps().filter(|app| app.runs()).collect();
    let apps: Vec<String> = running
        .iter()
        .map(|app| match app.started_ms() {
            Some(at) => format!("app {} has been running for {}", app.name, case.since(at)),
            None => format!("app {} is running", app.name),
        })
        .collect();
    let apps = apps.join(", ");
    if reached_deadline(case) {
        let says = format!(
            "{apps}; its sidecar was not ready at the hold deadline, so its connections may be refused \
             (usher request probes the sidecar, usher conns lists its listeners)"
        );
        return (false, says);
    }
    let sidecars = match &names(sidecars)[..] {
        [] => String::new(),
        [name] => format!("; sidecar {name} is ready"),
        names => format!("; sidecars {} are ready", names.join(", ")),
    };
    match &names(running.into_iter().filter(|app| !app.status.ready))[..] {
        [] => (true, format!("{apps}{sidecars}")),
        unready => {
            let unready = unready.join(", ");
            (false, format!("{apps}{sidecars}; not ready: {unready}"))
        }
    }
}

/// Whether the last hold reached its deadline. The kubelet reports a sidecar without a readiness probe as ready, so its
/// status does not show this.
fn reached_deadline(case: &Case<'_>) -> bool {
    let last = case.newest(|detail| matches!(detail, Detail::HoldReleased { .. }));
    last.is_some_and(|entry| {
        let deadline = Some(Opened::Deadline);
        matches!(entry.detail, Detail::HoldReleased { cause, .. } if cause == deadline)
    })
}

fn ended(case: &Case<'_>, finished: u64) -> (bool, String) {
    let failed = case.ends().into_iter().flatten().any(|end| end.code != 0);
    let how = match failed {
        true => "the apps ended, not all with exit code 0",
        false => "the apps ended with exit code 0",
    };
    let rest = match &names(case.running_sidecars())[..] {
        [] => "the kubelet is ending the pod".to_owned(),
        names => format!("{} still runs", names.join(", ")),
    };
    // A sidecar that runs too long is a finding.
    (!failed, format!("{how}, {}; {rest}", case.ago(finished)))
}

fn not_running(container: &Container, kind: &str) -> (bool, String) {
    let what = format!("{kind} {}", container.name);
    let reason = match &container.status.state {
        State::Running(_) => return (true, format!("{what} is running")),
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
        None => (
            STARTING.contains(&reason),
            format!("{what} has not started ({shown})"),
        ),
    }
}
