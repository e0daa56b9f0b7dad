//! Everything that is to be said about one pod.

use serde::{Deserialize, Serialize};
use usher_core::{admin::Role, node::network::Network, pod::restart_policy::RestartPolicy};

use super::{
    Case, Facts, Finding, Moment, Verdict,
    case::ISTIO_PROXY,
    change::{Change, changes},
    diagnose,
    facts::{Container, State},
    finding::span,
    story, verdict,
};

/// What a pod is, what happened in it, where it stands, what is wrong, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// When it was looked at, milliseconds since 1970.
    pub at_ms: u64,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Its Node.
    pub node: String,
    /// Its phase.
    pub phase: String,
    /// Its restart policy.
    pub restart_policy: String,
    /// Kind and name of what controls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What usher may do with it, and who says so.
    pub modes: Vec<String>,
    /// Its containers.
    pub containers: Vec<Member>,
    /// Its interfaces, addresses and routes, where it has a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What happened.
    pub timeline: Vec<Moment>,
    /// Where it stands.
    pub verdict: Verdict,
    /// What would change that.
    pub changes: Vec<Change>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub unseen: Vec<String>,
}

/// A container of the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// The recipe that recognises it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// Its state, in words.
    pub state: String,
    /// How often it was started again.
    pub restarts: u64,
    /// Its image.
    pub image: String,
    /// Its first process, as the node counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// Explains a pod.
pub fn explain(case: &Case<'_>) -> Explanation {
    let facts = case.facts;
    let findings = diagnose(case);
    Explanation {
        at_ms: case.seen.now_ms,
        namespace: facts.namespace.clone(),
        name: facts.name.clone(),
        uid: case.pod.uid.to_string(),
        node: facts.node.clone(),
        phase: facts.phase.clone(),
        restart_policy: match case.pod.restart_policy {
            RestartPolicy::Always => "Always",
            RestartPolicy::OnFailure => "OnFailure",
            RestartPolicy::Never => "Never",
        }
        .to_owned(),
        owner: facts
            .owner
            .as_ref()
            .map(|(kind, name)| format!("{kind}/{name}")),
        modes: modes(case),
        containers: facts
            .init
            .iter()
            .chain(&facts.containers)
            .map(|one| member(case, one))
            .collect(),
        network: case.seen.network.clone(),
        timeline: story::tell(case),
        verdict: verdict::judge(case, &findings),
        changes: changes(case),
        findings,
        unseen: unseen(case),
    }
}

/// Whether it matters which version the kubelet is.
pub fn asks_version(facts: &Facts) -> bool {
    facts
        .containers
        .iter()
        .any(|container| container.name == ISTIO_PROXY)
}

impl Explanation {
    /// `namespace/name`.
    pub fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn member(case: &Case<'_>, container: &Container) -> Member {
    let recipe = case
        .plan
        .sidecars
        .iter()
        .find(|sidecar| sidecar.name == container.name);
    let role = if container.is_native {
        Role::Native
    } else if container.place.starts_with("spec.init") {
        Role::Init
    } else if recipe.is_some() {
        Role::Sidecar
    } else {
        Role::App
    };
    let since = |at: Option<u64>| {
        at.map_or(String::new(), |at| {
            span(case.seen.now_ms.saturating_sub(at))
        })
    };
    let state = match &container.status.state {
        State::Waiting { reason } if reason.is_empty() => "waiting".to_owned(),
        State::Waiting { reason } => format!("waiting: {reason}"),
        State::Running { since_ms } => {
            let ready = if container.status.ready {
                ""
            } else {
                ", not ready"
            };
            format!("runs for {}{ready}", since(*since_ms))
        }
        State::Ended(end) => format!("ended with {} {} ago", end.code, since(end.finished_ms)),
    };
    let first = case
        .processes(&container.name)
        .min_by_key(|process| process.own_pid);
    Member {
        name: container.name.clone(),
        role,
        recipe: recipe.map(|sidecar| sidecar.recipe.to_string()),
        state,
        restarts: container.status.restarts,
        image: container.image.clone(),
        pid: first.map(|process| process.pid.0),
    }
}

fn modes(case: &Case<'_>) -> Vec<String> {
    let Some(modes) = case.seen.modes else {
        return vec!["unknown: neither the agent nor its run directory tells".to_owned()];
    };
    let mut lines = vec![
        format!("quit: {} (node {})", modes.quit, case.node()),
        format!("hold: {} (node {})", modes.hold, case.node()),
    ];
    if let Some(place) = case.opted_out_of_quit() {
        lines.push(format!("quit: false ({place})"));
    }
    if case.plan.tuning.hold == usher_core::settings::overrides::HoldKind::No {
        lines.push(format!(
            "hold: false ({})",
            case.opt_out(usher_core::settings::annotation::HOLD)
        ));
    }
    lines
}

fn unseen(case: &Case<'_>) -> Vec<String> {
    let mut unseen = Vec::new();
    match (case.seen.agent, &case.seen.timeline) {
        (true, _) => {}
        (false, Some(_)) => unseen.push(
            "what usher decides now: no agent answers, and the timeline is what the last one wrote down".to_owned(),
        ),
        (false, None) => unseen.push("what usher decided: no agent answers, and none wrote anything down".to_owned()),
    }
    if case.seen.processes.is_none() {
        unseen.push("processes of its containers".to_owned());
    }
    if case.seen.sockets.is_none() {
        unseen.push("sockets of its network namespace".to_owned());
    }
    if case.seen.kubelet.is_none() && asks_version(case.facts) {
        unseen.push("the kubelet's version".to_owned());
    }
    unseen
}
