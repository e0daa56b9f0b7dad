//! Which decisions are worth an Event, and what it says.
//!
//! A usual Job is worth one: its sidecar quit. What had to be tried before is part of that one, so it is
//! kept until then. What is no business of usher, what is not decided yet, and what users asked for (opt
//! out, deletion) is worth none.

mod hold;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{LONGEST_NOTE, Notice, Reason, Regarding, text::bounded};
use crate::{
    Decision,
    base::id::PodUid,
    decision::{GaveUp, Kind},
    pod::exit_status::ExitStatus,
    settings::{
        annotation,
        overrides::{InvalidAnnotation, Place},
    },
};

/// Sidecars whose ladders are remembered: those of a full node, and more.
const TRAILS: usize = 1024;
/// Steps that are remembered of each, the last ones.
const STEPS: usize = 4;
/// Bytes of somebody else's text in a note.
const QUOTED: usize = 400;

/// What was tried with sidecars that have not ended yet.
#[derive(Debug)]
pub struct EventRecorder {
    node: String,
    trails: BTreeMap<(PodUid, String), Trail>,
    /// The oldest first.
    order: VecDeque<(PodUid, String)>,
}

#[derive(Debug, Default)]
struct Trail {
    failed: VecDeque<String>,
    accepted: Option<String>,
}

impl EventRecorder {
    /// For the pods of the Node of this name.
    pub fn new(node: String) -> Self {
        Self {
            node,
            trails: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// The name of the Node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The Event that a decision of this moment is worth, if it is worth one.
    pub fn notice(&mut self, at_us: u64, decision: &Decision) -> Option<Notice> {
        let (reason, note) = self.told(decision)?;
        // Before the kubelet has listed it nothing but its UID is known.
        let (namespace, name) = decision.pod_name.split_once('/')?;
        if !is_name(namespace) || !is_name(name) {
            return None;
        }
        Some(Notice {
            regarding: Regarding::Pod {
                uid: decision.pod.to_string(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            reason,
            container: decision.container.clone(),
            note: bounded(&note, LONGEST_NOTE),
            at_us,
        })
    }

    fn told(&mut self, decision: &Decision) -> Option<(Reason, String)> {
        let kind = &decision.kind;
        let told = match kind {
            Kind::StepFailed { step, outcome, .. } => {
                let failed = format!("{step} {}", outcome.failure());
                self.trail(decision)?.fail(failed);
                return None;
            }
            Kind::QuitAccepted { step, outcome, .. } => {
                let accepted = format!("{step} {}", outcome.reason());
                self.trail(decision)?.accepted = Some(accepted);
                return None;
            }
            Kind::SidecarEnded { asked, status } => {
                let trail = self.forget(decision);
                if !asked {
                    return None;
                }
                let note = quit(decision, *status, &trail.unwrap_or_default());
                (Reason::SidecarQuit, note)
            }
            Kind::GaveUp { reason } => {
                let trail = self.forget(decision).unwrap_or_default();
                (Reason::SidecarStays, stays(decision, reason, &trail))
            }
            Kind::WouldQuit { recipe, step } => {
                let sidecar = container(decision);
                let note = format!(
                    "every app of this pod has ended for good and sidecar {sidecar} runs on; usher would end it by {step} (recipe {}) \
                     but only observes this node. To have it done: kubectl annotate node {} {}=enforce --overwrite",
                    bounded(recipe, 64),
                    self.node,
                    annotation::QUIT
                );
                (Reason::WouldQuit, note)
            }
            Kind::RuntimeUnsupported { .. } => {
                let note = format!(
                    "{}. Use another RuntimeClass, or have the app end its sidecar",
                    bounded(&kind.reason(), QUOTED)
                );
                (Reason::RuntimeUnsupported, note)
            }
            Kind::InvalidAnnotation(bad) => (Reason::InvalidAnnotation, bad_annotation(bad)),
            _ => return hold::told(&self.node, decision),
        };
        Some(told)
    }

    fn trail(&mut self, decision: &Decision) -> Option<&mut Trail> {
        let key = (decision.pod.clone(), decision.container.clone()?);
        if !self.trails.contains_key(&key) {
            if self.order.len() >= TRAILS
                && let Some(oldest) = self.order.pop_front()
            {
                self.trails.remove(&oldest);
            }
            self.order.push_back(key.clone());
        }
        Some(self.trails.entry(key).or_default())
    }

    fn forget(&mut self, decision: &Decision) -> Option<Trail> {
        let key = (decision.pod.clone(), decision.container.clone()?);
        let trail = self.trails.remove(&key)?;
        self.order.retain(|other| *other != key);
        Some(trail)
    }
}

impl Trail {
    fn fail(&mut self, step: String) {
        if self.failed.len() == STEPS {
            self.failed.pop_front();
        }
        self.failed.push_back(step);
    }

    /// What had been tried in vain.
    fn vain(&self) -> String {
        let steps: Vec<&str> = self.failed.iter().map(String::as_str).collect();
        bounded(&steps.join("; "), QUOTED)
    }
}

/// Whether it can stand in a path: every name that Kubernetes gives can.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (1..=253).contains(&text.len()) && text.bytes().all(fits)
}

pub(super) fn container(decision: &Decision) -> &str {
    decision.container.as_deref().unwrap_or_default()
}

/// Whole milliseconds, and seconds where they are many.
pub(super) fn time(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

fn quit(decision: &Decision, status: Option<ExitStatus>, trail: &Trail) -> String {
    let sidecar = container(decision);
    let code = status.map_or(String::new(), |status| format!(" with {status}"));
    let since = match decision.since_exit {
        Some(since) => format!(", {} after the pod's last app", time(since)),
        None => " after the pod's last app".to_owned(),
    };
    let mut note = format!("sidecar {sidecar} ended{code}{since}");
    if let Some(accepted) = &trail.accepted {
        note.push_str(": ");
        note.push_str(&bounded(accepted, QUOTED));
    }
    if !trail.failed.is_empty() {
        note.push_str("; before that: ");
        note.push_str(&trail.vain());
    }
    note
}

fn stays(decision: &Decision, reason: &GaveUp, trail: &Trail) -> String {
    let kind = Kind::GaveUp {
        reason: reason.clone(),
    };
    let sidecar = container(decision);
    let mut note = format!(
        "sidecar {sidecar} is left running: {}",
        bounded(&kind.reason(), QUOTED)
    );
    if !trail.failed.is_empty() {
        note.push_str(". Tried: ");
        note.push_str(&trail.vain());
    }
    note
}

fn bad_annotation(bad: &InvalidAnnotation) -> String {
    let InvalidAnnotation {
        place,
        key,
        value,
        expected,
    } = bad;
    let place = match place {
        Place::Pod => "annotation of this pod",
        other => other.as_str(),
    };
    format!(
        "{key} ({place}) is {}, which is not {expected}: it counts as absent. Correct it in the pod's template or its Namespace",
        bounded(&format!("{value:?}"), QUOTED)
    )
}

#[cfg(test)]
mod tests;
