//! The explanation of one pod: the whole output of `usher explain`.

use serde::{Deserialize, Serialize};
use usher_core::{
    admin::Role,
    base::duration::setting,
    decision::timeline::Entry,
    linger::{FLOOR, SILENCE},
    node::network::Network,
    settings::{
        annotation,
        overrides::{HoldKind, LingerKind, PreStop},
    },
};

use super::{
    Case, Facts, Finding, Moment, Verdict,
    case::{ISTIO_PROXY, mode},
    change::{Change, changes},
    date::span,
    facts::{Container, State},
    finding::diagnose,
    stuck::{self, Stuck},
    timeline, verdict,
};

/// A pod's metadata, timeline, state and findings, and the changes that would affect it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// When the pod was inspected, in milliseconds since 1970.
    pub at_ms: u64,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub node: String,
    pub phase: String,
    pub restart_policy: String,
    /// Kind and name of the pod's controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The modes that apply, each with the place that sets it.
    pub modes: Vec<String>,
    pub containers: Vec<Member>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    pub timeline: Vec<Moment>,
    pub verdict: Verdict,
    /// Set if the pod has done its work and does not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Stuck>,
    pub changes: Vec<Change>,
    /// Whether the kubelet no longer lists the pod, so that the explanation has only usher's records.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_gone: bool,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// Data that could not be read.
    pub unseen: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub name: String,
    pub role: Role,
    /// The recipe that recognizes the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    pub state: String,
    pub restarts: u64,
    pub image: String,
    /// The container's first process, in the node's pid namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

pub fn explain(case: &Case<'_>) -> Explanation {
    let facts = case.facts;
    let findings = diagnose(case);
    let owner = facts.owner.as_ref();
    let containers = facts.init.iter().chain(&facts.containers);
    Explanation {
        at_ms: case.seen.now_ms,
        namespace: facts.namespace.clone(),
        name: facts.name.clone(),
        uid: case.pod.uid.to_string(),
        node: facts.node.clone(),
        phase: facts.phase.clone(),
        restart_policy: case.pod.restart_policy.to_string(),
        owner: owner.map(|(kind, name)| format!("{kind}/{name}")),
        modes: modes(case),
        containers: containers.map(|one| member(case, one)).collect(),
        network: case.seen.network.clone(),
        timeline: timeline::moments(case),
        verdict: verdict::judge(case, &findings),
        stuck: stuck::stuck(case, &findings),
        changes: changes(case),
        is_gone: false,
        findings,
        unseen: unseen(case),
    }
}

/// Whether a finding depends on the kubelet's version.
pub fn needs_kubelet_version(facts: &Facts) -> bool {
    let mut containers = facts.containers.iter();
    containers.any(|container| container.name == ISTIO_PROXY)
}

impl Explanation {
    /// The explanation of a pod that the kubelet no longer lists, from usher's decisions, oldest first; None without
    /// decisions.
    pub fn of_gone_pod(now_ms: u64, entries: &[Entry]) -> Option<Self> {
        let last = entries.last()?;
        let (namespace, name) = last.pod.split_once('/').unwrap_or(("", &last.pod));
        let message = format!(
            "the pod is gone; the last decision about it, {} ago: {}: {}",
            span(now_ms.saturating_sub(last.at_ms)),
            last.detail.name(),
            last.reason
        );
        Some(Self {
            at_ms: now_ms,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: last.uid.clone(),
            timeline: timeline::in_order(timeline::decisions(entries)),
            verdict: Verdict {
                healthy: true,
                message,
            },
            is_gone: true,
            ..Self::default()
        })
    }

    /// The finding that explains why a stuck pod does not end.
    pub fn cause(&self) -> Option<&Finding> {
        self.stuck.as_ref()?;
        let mut findings = self.findings.iter();
        findings.find(|finding| finding.severity.is_trouble() && finding.id.keeps_the_pod())
    }

    /// `namespace/name`.
    pub fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn member(case: &Case<'_>, container: &Container) -> Member {
    let name = &container.name;
    let mut sidecars = case.plan.sidecars.iter();
    let sidecar = sidecars.find(|sidecar| sidecar.name == *name);
    let mut self_ending = case.plan.self_ending.iter();
    let self_ending = self_ending.find(|found| found.name == *name);
    let role = if container.is_native {
        Role::Native
    } else if container.is_init() {
        Role::Init
    } else if sidecar.is_some() {
        Role::Sidecar
    } else if self_ending.is_some() {
        Role::SelfEnding
    } else {
        Role::App
    };
    let since = |at: Option<u64>| at.map_or(String::new(), |at| case.since(at));
    let state = match &container.status.state {
        State::Waiting(reason) if reason.is_empty() => "waiting".to_owned(),
        State::Waiting(reason) => format!("waiting: {reason}"),
        State::Running(at) if container.status.ready => format!("running for {}", since(*at)),
        State::Running(at) => format!("running for {}, not ready", since(*at)),
        State::Ended(end) => {
            let since = since(end.finished_ms);
            format!("ended with exit code {}, {since} ago", end.code)
        }
    };
    let first = case
        .processes(&container.name)
        .min_by_key(|process| process.own_pid);
    Member {
        name: container.name.clone(),
        role,
        recipe: sidecar
            .map(|sidecar| &sidecar.recipe)
            .or(self_ending.map(|found| &found.recipe))
            .map(ToString::to_string),
        state,
        restarts: container.status.restarts,
        image: container.image.clone(),
        pid: first.map(|process| process.pid.0),
    }
}

fn modes(case: &Case<'_>) -> Vec<String> {
    let Some(modes) = &case.seen.modes else {
        let unknown = match case.seen.agent {
            true => "unknown: the agent does not report them",
            false => "unknown: no agent replies, and its run directory has no record",
        };
        return vec![unknown.to_owned()];
    };
    let unread = "the agent has not read the Node since it started";
    let no_quit = case.opted_out_of_quit();
    let linger = match case.plan.tuning.linger {
        LingerKind::Unset => None,
        LingerKind::No => Some("false".to_owned()),
        LingerKind::UntilAppsEnd => Some("until the apps have ended".to_owned()),
        LingerKind::For(limit) => Some(format!("for at most {}", setting(limit))),
    };
    let linger = linger.map(|requested| {
        let place = case.opt_out(annotation::LINGER);
        let mode = mode::text("linger", modes.linger, modes.linger_source.as_deref());
        format!("{mode}; {requested} ({place})")
    });
    let pre_stop = case.plan.tuning.pre_stop.map(|time| {
        let place = case.opt_out(annotation::PRE_STOP);
        let time = match time {
            PreStop::For(time) => setting(time).to_string(),
            PreStop::Auto => format!(
                "auto, {}, then until clients have sent nothing for {}",
                setting(FLOOR),
                setting(SILENCE)
            ),
        };
        format!("pre-stop: {time} ({place})")
    });
    let no_hold = (case.plan.tuning.hold == HoldKind::No).then(|| case.opt_out(annotation::HOLD));
    [
        Some(mode::text("quit", modes.quit, modes.quit_source.as_deref())),
        Some(mode::text("hold", modes.hold, modes.hold_source.as_deref())),
        (!modes.known).then(|| unread.to_owned()),
        no_quit.map(|place| format!("quit: false ({place})")),
        no_hold.map(|place| format!("hold: false ({place})")),
        linger,
        pre_stop,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn unseen(case: &Case<'_>) -> Vec<String> {
    let seen = case.seen;
    let has_timeline = seen.timeline.is_some();
    [
        (
            !seen.agent && has_timeline,
            "new decisions of usher: no agent replies, and the timeline is that of the last one",
        ),
        (
            !seen.agent && !has_timeline,
            "decisions of usher: no agent replies, and there is no timeline",
        ),
        (seen.processes.is_none(), "processes of its containers"),
        (seen.sockets.is_none(), "sockets of its network namespace"),
        (
            seen.kubelet.is_none() && needs_kubelet_version(case.facts),
            "the kubelet's version",
        ),
    ]
    .into_iter()
    .filter(|(is_unseen, _)| *is_unseen)
    .map(|(_, what)| what.to_owned())
    .collect()
}
