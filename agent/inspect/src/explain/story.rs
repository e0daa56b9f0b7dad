//! What happened in a pod, in order: the kubelet's times of its containers, which have whole seconds, and what usher
//! decided, which has milliseconds.

use serde::{Deserialize, Serialize};

use super::{
    Case,
    date::write,
    facts::{Container, Ended, State},
};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// The same for people, in UTC.
    pub at: String,
    /// How long after the first of them.
    pub after_ms: u64,
    /// Who says so.
    pub from: Teller,
    /// What happened, in a word.
    pub what: String,
    /// The container that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// How long it lasted, where it has an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Why, or how it ended.
    pub says: String,
}

/// Who tells of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Teller {
    /// The kubelet, in the pod's status.
    Kubelet,
    /// usher, in the pod's timeline.
    Usher,
}

impl Teller {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Usher => "usher",
        }
    }
}

/// All that is known to have happened.
pub(super) fn tell(case: &Case<'_>) -> Vec<Moment> {
    let facts = case.facts;
    let mut story = Vec::new();
    let mut pod = |at: Option<u64>, what: &str, says: &str| {
        story.extend(at.map(|at| moment(at, Teller::Kubelet, what, None, says)));
    };
    pod(facts.created_ms, "created", "the pod was made");
    pod(facts.started_ms, "accepted", "the kubelet took it up");
    pod(facts.deletion_ms, "deleted", "its deletion was asked for");
    for container in facts.init.iter().chain(&facts.containers) {
        story.extend(runs(container));
    }
    story.extend(case.decisions().iter().map(|entry| {
        let container = entry.container.as_deref();
        moment(
            entry.at_ms,
            Teller::Usher,
            &entry.decision,
            container,
            &entry.reason,
        )
    }));
    // Of what happened in the same second the kubelet's comes first: it is rounded down.
    story.sort_by_key(|moment| moment.at_ms);
    let first = story.first().map_or(0, |moment| moment.at_ms);
    for moment in &mut story {
        moment.after_ms = moment.at_ms - first;
    }
    story
}

fn moment(at_ms: u64, from: Teller, what: &str, container: Option<&str>, says: &str) -> Moment {
    Moment {
        at_ms,
        at: write(at_ms),
        after_ms: 0,
        from,
        what: what.to_owned(),
        container: container.map(str::to_owned),
        took_ms: None,
        says: says.to_owned(),
    }
}

/// The runs of a container that the status has.
fn runs(container: &Container) -> Vec<Moment> {
    let name = Some(container.name.as_str());
    let mut moments = Vec::new();
    let mut ended = |end: &Ended| {
        let began = end
            .started_ms
            .map(|at| moment(at, Teller::Kubelet, "started", name, ""));
        let took = end
            .finished_ms
            .zip(end.started_ms)
            .map(|(end, start)| end.saturating_sub(start));
        let reason = match end.reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let finished = end.finished_ms.map(|at| {
            let says = format!("exit code {}{reason}", end.code);
            Moment {
                took_ms: took,
                ..moment(at, Teller::Kubelet, "ended", name, &says)
            }
        });
        moments.extend(began.into_iter().chain(finished));
    };
    container.status.last.iter().for_each(&mut ended);
    match &container.status.state {
        State::Ended(end) => ended(end),
        State::Running { since_ms: Some(at) } => {
            let says = if container.status.ready {
                "ready now"
            } else {
                "not ready yet"
            };
            moments.push(moment(*at, Teller::Kubelet, "started", name, says));
        }
        State::Running { since_ms: None } | State::Waiting { .. } => {}
    }
    moments
}
