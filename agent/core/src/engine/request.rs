//! Requests of operators about one pod, and the engine's replies.
//!
//! The engine replies when it has decided, not when a sidecar has exited. A request covers the runs that exist when
//! it is made, and does not survive a restart of the agent. The pod's timeline records each accepted request.
//!
//! A request overrides the node's mode and the opt-out of the pod, its Namespace or the configuration. Unless it is
//! forced, usher refuses it while an app may still run, and where it would make the pod fail.

use serde::{Deserialize, Serialize};

use crate::{
    base::id::PodUid,
    decision::{GaveUp, NotApplicable, Requester, SkipReason, Verb, WaitReason},
    hold::NotHeld,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorRequest {
    pub pod: PodUid,
    pub verb: Verb,
    pub requester: Requester,
    pub dry_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// usher carries out the request, or would.
    Taken(Taken),
    /// There is nothing to do: the pod is as requested.
    Nothing(String),
    Refused(Refused),
}

/// The effects of an accepted request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    pub message: String,
    /// What the request overrides, such as the mode.
    pub despite: Vec<String>,
    /// The first step with each sidecar, in the order of the stages.
    pub steps: Vec<Step>,
    /// The ports at which connections are or were held.
    pub ports: Vec<u16>,
}

/// The first step with one sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub container: String,
    pub step: String,
    /// The exit code that the step is known to cause.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Refused {
    #[error("no such pod on this node")]
    NoPod,
    /// A fact about the pod is not known yet.
    #[error("{0}")]
    Unknown(WaitReason),
    /// An app of the pod may still run.
    #[error("{0}")]
    AppRuns(WaitReason),
    #[error("{0}")]
    NotApplicable(NotApplicable),
    #[error(
        "the node's kernel shows none of its processes: a sandboxed runtime such as gVisor or Kata"
    )]
    Hidden,
    #[error("{0}")]
    Skipped(SkipReason),
    /// Every step that is left would harm the pod.
    #[error("{container}: {why}")]
    FailsPod {
        container: String,
        /// The remaining step, and its effect.
        why: GaveUp,
    },
    #[error("{0}")]
    NotHeld(NotHeld),
    #[error("its ports are being held or released at this moment; try again")]
    Busy,
    #[error("it could not be done; the timeline and the agent's log say why (usher explain)")]
    Failed,
}

impl Refused {
    pub const fn yields_to_force(&self) -> bool {
        match self {
            Self::AppRuns(_) | Self::FailsPod { .. } => true,
            Self::NotApplicable(why) => matches!(
                why,
                NotApplicable::NeverFinishes { .. }
                    | NotApplicable::NoApp
                    | NotApplicable::ExcludedNamespace
            ),
            Self::NoPod
            | Self::Unknown(_)
            | Self::Hidden
            | Self::Skipped(_)
            | Self::NotHeld(_)
            | Self::Busy
            | Self::Failed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name and text of each refusal, and whether --force overrides it.
    #[test]
    fn each_refusal_has_a_name_and_a_text() {
        let container = || "app".to_owned();
        let cases = [
            (Refused::NoPod, "no-pod", "no such pod on this node", false),
            (
                Refused::Unknown(WaitReason::Unlisted),
                "unknown",
                "the kubelet does not list the pod yet",
                false,
            ),
            (
                Refused::AppRuns(WaitReason::Runs {
                    container: container(),
                }),
                "app-runs",
                "app container app runs",
                true,
            ),
            (
                Refused::NotApplicable(NotApplicable::NoApp),
                "not-applicable",
                "the pod has sidecars only, and no app that could end",
                true,
            ),
            (
                Refused::Hidden,
                "hidden",
                "the node's kernel shows none of its processes: a sandboxed runtime such as gVisor or Kata",
                false,
            ),
            (
                Refused::Skipped(SkipReason::Deleting),
                "skipped",
                "the pod is being deleted, and the kubelet terminates it",
                false,
            ),
            (
                Refused::FailsPod {
                    container: container(),
                    why: GaveUp::StillRuns,
                },
                "fails-pod",
                "app: every step was tried and the sidecar still runs; delete the pod, or end the sidecar manually",
                true,
            ),
            (
                Refused::NotHeld(NotHeld::HostNetwork),
                "not-held",
                "the pod uses the host's network namespace",
                false,
            ),
            (
                Refused::Busy,
                "busy",
                "its ports are being held or released at this moment; try again",
                false,
            ),
            (
                Refused::Failed,
                "failed",
                "it could not be done; the timeline and the agent's log say why (usher explain)",
                false,
            ),
        ];
        for (why, word, message, yields) in cases {
            assert_eq!(why.into_str(), word);
            assert_eq!(why.to_string(), message);
            assert_eq!(why.yields_to_force(), yields, "{word}");
        }
    }
}
