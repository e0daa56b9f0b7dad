//! Turns decisions into Events.
//!
//! A Job that completes as usual has one Event: its sidecar quit. The steps that failed before are part of its note, so
//! the recorder keeps them until then. Pods without a sidecar, pods that still wait, and what users requested (opt-out,
//! deletion) have no Event. A sidecar of a deleted pod that usher terminated has one.

mod hold;
mod linger;

use std::collections::{BTreeMap, VecDeque};

use super::{LONGEST_NOTE, Notice, Reason, Regarding, text::bounded};
use crate::{
    Decision,
    base::{duration::elapsed, id::PodUid},
    decision::{GaveUp, Kind},
    pod::exit_status::ExitStatus,
    settings::{
        annotation,
        overrides::{InvalidAnnotation, Place},
    },
};

/// Sidecars for which attempts are kept: those of a full node, and more.
const TRAILS: usize = 1024;
/// The last steps that are kept of each sidecar.
const STEPS: usize = 4;
/// Limit of external text in a note, in bytes.
const QUOTED: usize = 400;

/// Turns decisions into Events, with the attempts at sidecars that have not ended yet.
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
    pub fn new(node: String) -> Self {
        Self {
            node,
            trails: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns the Event for a decision, if it has one.
    pub fn notice(&mut self, at_us: u64, decision: &Decision) -> Option<Notice> {
        let (reason, note) = self.content(decision)?;
        // Before the kubelet lists the pod, its name is its UID, and an Event needs a namespace.
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

    fn content(&mut self, decision: &Decision) -> Option<(Reason, String)> {
        let kind = &decision.kind;
        let content = match kind {
            Kind::StepFailed { step, outcome, .. } => {
                let failed = format!("{step} {}", outcome.failure());
                self.trail(decision)?.fail(failed);
                return None;
            }
            Kind::QuitAccepted { step, outcome, .. } => {
                let accepted = format!("{step} {outcome}");
                self.trail(decision)?.accepted = Some(accepted);
                return None;
            }
            Kind::SidecarEnded { requested, status } => {
                let trail = self.forget(decision);
                if !requested {
                    return None;
                }
                let note = quit_note(decision, *status, &trail.unwrap_or_default());
                (Reason::SidecarQuit, note)
            }
            Kind::GaveUp { reason } => {
                let trail = self.forget(decision).unwrap_or_default();
                (Reason::SidecarStays, stays_note(decision, reason, &trail))
            }
            Kind::WouldQuit { recipe, step } => {
                let sidecar = container(decision);
                let note = format!(
                    "every app of this pod has ended for good and sidecar {sidecar} is still running; usher would end it by {step} \
                     (recipe {}), but this node is in observe mode. To enforce: kubectl annotate node {} {}=enforce --overwrite",
                    bounded(recipe, 64),
                    self.node,
                    annotation::QUIT
                );
                (Reason::WouldQuit, note)
            }
            Kind::RuntimeUnsupported { .. } => {
                let note = format!(
                    "{}. Use another RuntimeClass, or let the app end its sidecar",
                    bounded(&kind.reason(), QUOTED)
                );
                (Reason::RuntimeUnsupported, note)
            }
            Kind::InvalidAnnotation(invalid) => {
                (Reason::InvalidAnnotation, invalid_annotation_note(invalid))
            }
            Kind::LingerReleased { .. }
            | Kind::LingerUnsupported { .. }
            | Kind::PreStopUnsupported { .. } => {
                return linger::content(decision);
            }
            _ => return hold::content(&self.node, decision),
        };
        Some(content)
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

    fn failed_steps(&self) -> String {
        let steps: Vec<&str> = self.failed.iter().map(String::as_str).collect();
        bounded(&steps.join("; "), QUOTED)
    }
}

/// Whether the text is safe in a URL path, as every Kubernetes name is.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (1..=253).contains(&text.len()) && text.bytes().all(fits)
}

pub(super) fn container(decision: &Decision) -> &str {
    decision.container.as_deref().unwrap_or_default()
}

fn quit_note(decision: &Decision, status: Option<ExitStatus>, trail: &Trail) -> String {
    let sidecar = container(decision);
    let code = status.map_or(String::new(), |status| format!(" with {status}"));
    let since = match decision.since_exit {
        Some(since) => format!(", {} after the pod's last app", elapsed(since)),
        // Requested by `usher quit --force` while an app runs.
        None => String::new(),
    };
    let mut note = format!("sidecar {sidecar} ended{code}{since}");
    if let Some(accepted) = &trail.accepted {
        note.push_str(": ");
        note.push_str(&bounded(accepted, QUOTED));
    }
    if !trail.failed.is_empty() {
        note.push_str("; before that: ");
        note.push_str(&trail.failed_steps());
    }
    note
}

fn stays_note(decision: &Decision, reason: &GaveUp, trail: &Trail) -> String {
    let sidecar = container(decision);
    let mut note = format!(
        "sidecar {sidecar} is still running: {}",
        bounded(&reason.to_string(), QUOTED)
    );
    if !trail.failed.is_empty() {
        note.push_str(". Tried: ");
        note.push_str(&trail.failed_steps());
    }
    note
}

fn invalid_annotation_note(invalid: &InvalidAnnotation) -> String {
    let InvalidAnnotation {
        place,
        key,
        value,
        expected,
    } = invalid;
    let place = match place {
        Place::Pod => "annotation of this pod",
        other => other.as_str(),
    };
    format!(
        "{key} ({place}) is {}, expected {expected}: usher ignores it. Correct it in the pod's template or its Namespace",
        bounded(&format!("{value:?}"), QUOTED)
    )
}

#[cfg(test)]
mod tests;
