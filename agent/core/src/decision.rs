//! Decisions, for people: what was decided about a pod, and why.
//!
//! In observe mode the same decisions are made and recorded; only
//! [`Kind::WouldQuit`] stands where [`crate::Action::Attempt`] would be.

use std::time::Duration;

use crate::{event::Outcome, id::PodUid, step::Step};

/// One decision about one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The pod.
    pub pod: PodUid,
    /// `namespace/name` of the pod.
    pub pod_name: String,
    /// The container that it is about, if it is about one.
    pub container: Option<String>,
    /// What was decided.
    pub kind: Kind,
    /// How long ago the last app container ended; None where usher did not see
    /// it end.
    pub since_exit: Option<Duration>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Every app container ended for good; these sidecars are to quit.
    PodFinished {
        /// Names of the sidecars that have not ended.
        sidecars: Vec<String>,
    },
    /// Observe mode: this is what would be tried first.
    WouldQuit {
        /// Recipe by which the sidecar was recognised.
        recipe: &'static str,
        /// The first step of its ladder.
        step: Step,
    },
    /// A step was accepted: what counts now is whether the sidecar ends.
    QuitAccepted {
        /// Recipe by which the sidecar was recognised.
        recipe: &'static str,
        /// The step.
        step: Step,
        /// How it was accepted.
        outcome: Outcome,
    },
    /// A step failed, or was accepted and the sidecar did not end.
    StepFailed {
        /// Recipe by which the sidecar was recognised.
        recipe: &'static str,
        /// The step.
        step: Step,
        /// What came of it.
        outcome: Outcome,
        /// What is tried next, if anything is left.
        next: Option<Step>,
    },
    /// The sidecar of a finished pod ended.
    SidecarEnded {
        /// Whether usher had asked it to.
        asked: bool,
    },
    /// Nothing is left to try.
    GaveUp {
        /// Why.
        reason: GaveUp,
    },
    /// The pod is finished and is left as it is.
    LeftAlone {
        /// Why.
        reason: LeftAlone,
    },
    /// An annotation of the pod cannot be used; the default counts.
    BadAnnotation {
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
    },
}

/// Why there is nothing left to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// Every step was tried and the sidecar still runs.
    StillRuns,
    /// The sidecar was started again each time that it quit.
    ComesBack,
}

/// Why a finished pod is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftAlone {
    /// Its annotation says so.
    OptedOut,
    /// It is being deleted: the kubelet ends it.
    Deleting,
}

impl Kind {
    /// The decision's name in logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::PodFinished { .. } => "pod-finished",
            Self::WouldQuit { .. } => "would-quit",
            Self::QuitAccepted { .. } => "quit-accepted",
            Self::StepFailed { .. } => "step-failed",
            Self::SidecarEnded { .. } => "sidecar-ended",
            Self::GaveUp { .. } => "gave-up",
            Self::LeftAlone { .. } => "left-alone",
            Self::BadAnnotation { .. } => "bad-annotation",
        }
    }

    /// Why, and what happens next, as a sentence for a log line.
    pub fn reason(&self) -> String {
        match self {
            Self::PodFinished { sidecars } if sidecars.is_empty() => {
                "every app container ended for good and no sidecar runs yet".to_owned()
            }
            Self::PodFinished { sidecars } => format!(
                "every app container ended for good; still running: {}",
                sidecars.join(", ")
            ),
            Self::WouldQuit { recipe, step } => format!(
                "observe mode: nothing is done; enforce would try {step} first (recipe {recipe})"
            ),
            Self::QuitAccepted {
                recipe,
                step,
                outcome,
            } => format!("{step} {} (recipe {recipe})", outcome.reason()),
            Self::StepFailed {
                step,
                outcome,
                next,
                ..
            } => match next {
                Some(next) => format!("{step} {}; next is {next}", outcome.failure()),
                None => format!("{step} {}; nothing is left to try", outcome.failure()),
            },
            Self::SidecarEnded { asked: true } => "the sidecar ended as asked".to_owned(),
            Self::SidecarEnded { asked: false } => "the sidecar ended by itself".to_owned(),
            Self::GaveUp {
                reason: GaveUp::StillRuns,
            } => "every step was tried and the sidecar still runs; delete the pod, or end the \
                  sidecar by hand"
                .to_owned(),
            Self::GaveUp {
                reason: GaveUp::ComesBack,
            } => "the sidecar is started again each time that it quits; look for a liveness \
                  probe, an exit code other than 0, or restartPolicy Always on it"
                .to_owned(),
            Self::LeftAlone {
                reason: LeftAlone::OptedOut,
            } => format!(
                "left alone: annotation {} is \"false\"",
                crate::annotation::QUIT
            ),
            Self::LeftAlone {
                reason: LeftAlone::Deleting,
            } => "left alone: it is being deleted, the kubelet ends it".to_owned(),
            Self::BadAnnotation { key, value } => {
                format!("annotation {key} is {value:?}, not \"true\" or \"false\"; ignored")
            }
        }
    }
}

impl Outcome {
    fn reason(&self) -> String {
        match self {
            Self::Accepted => "was accepted".to_owned(),
            Self::NoReply => "was taken without a reply".to_owned(),
            Self::Rejected(status) => format!("was answered with status {status}"),
            Self::Refused => "found nobody listening".to_owned(),
            Self::TimedOut => "was not answered in time".to_owned(),
            Self::Signalled => "was delivered".to_owned(),
            Self::Gone => "found the process gone".to_owned(),
            Self::Failed(why) => format!("could not be tried: {why}"),
        }
    }

    fn failure(&self) -> String {
        match self {
            Self::Accepted | Self::NoReply | Self::Signalled => {
                format!("{}, but the sidecar runs on", self.reason())
            }
            _ => self.reason(),
        }
    }

    /// The outcome's name in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NoReply => "no-reply",
            Self::Rejected(_) => "rejected",
            Self::Refused => "refused",
            Self::TimedOut => "timed-out",
            Self::Signalled => "signalled",
            Self::Gone => "gone",
            Self::Failed(_) => "failed",
        }
    }
}
