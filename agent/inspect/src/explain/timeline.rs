//! The timeline of a pod: the kubelet's times of its containers, in whole seconds, and usher's decisions, in milliseconds.

use serde::{Deserialize, Serialize};
use usher_core::decision::timeline::Entry;

use super::{
    Case,
    date::write,
    facts::{Container, Ended, State, non_empty},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The same as RFC 3339, in UTC.
    pub at: String,
    /// Milliseconds since the first event.
    pub after_ms: u64,
    pub from: Origin,
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The length of a run that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The reason or the result, as text.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Origin {
    /// The kubelet, in the pod's status.
    Kubelet,
    /// usher, in the pod's timeline.
    Usher,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

pub(super) fn moments(case: &Case<'_>) -> Vec<Moment> {
    let facts = case.facts;
    let pod = [
        (facts.created_ms, "created", "the pod was created"),
        (facts.started_ms, "accepted", "the kubelet accepted the pod"),
        (facts.deletion_ms, "deleted", "deletion was requested"),
    ];
    let pod = pod
        .into_iter()
        .filter_map(|(at, what, message)| Some(by_kubelet(at?, what, None, message)));
    let runs = facts.init.iter().chain(&facts.containers).flat_map(runs);
    in_order(pod.chain(runs).chain(decisions(case.decisions())))
}

pub(super) fn decisions(entries: &[Entry]) -> impl Iterator<Item = Moment> {
    entries.iter().map(|entry| Moment {
        from: Origin::Usher,
        ..by_kubelet(
            entry.at_ms,
            entry.detail.name(),
            entry.container.as_deref(),
            &entry.reason,
        )
    })
}

/// Sorts the events, and adds the time since the first one.
pub(super) fn in_order(moments: impl Iterator<Item = Moment>) -> Vec<Moment> {
    let mut moments: Vec<Moment> = moments.collect();
    // The sort is stable: within one second the kubelet's time, which is rounded down, comes first.
    moments.sort_by_key(|moment| moment.at_ms);
    let first = moments.first().map_or(0, |moment| moment.at_ms);
    for moment in &mut moments {
        moment.after_ms = moment.at_ms - first;
    }
    moments
}

fn by_kubelet(at_ms: u64, what: &str, container: Option<&str>, message: &str) -> Moment {
    Moment {
        at_ms,
        at: write(at_ms),
        after_ms: 0,
        from: Origin::Kubelet,
        what: what.to_owned(),
        container: container.map(str::to_owned),
        took_ms: None,
        message: message.to_owned(),
    }
}

fn runs(container: &Container) -> Vec<Moment> {
    let name = Some(&container.name[..]);
    let mut moments: Vec<Moment> = container
        .ends()
        .flat_map(|end| {
            let started = end.started_ms.map(|at| by_kubelet(at, "started", name, ""));
            started.into_iter().chain(ended(name, end))
        })
        .collect();
    if let State::Running(Some(at)) = container.status.state {
        let message = match container.status.ready {
            true => "ready",
            false => "not ready",
        };
        moments.push(by_kubelet(at, "started", name, message));
    }
    moments
}

fn ended(container: Option<&str>, end: &Ended) -> Option<Moment> {
    let at = end.finished_ms?;
    let code = end.code;
    let message = match non_empty(&end.reason) {
        Some(reason) => format!("exit code {code} ({reason})"),
        None => format!("exit code {code}"),
    };
    Some(Moment {
        took_ms: end.started_ms.map(|start| at.saturating_sub(start)),
        ..by_kubelet(at, "ended", container, &message)
    })
}
