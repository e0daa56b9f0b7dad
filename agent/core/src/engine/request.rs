//! What a person has usher do with one pod by hand, and what usher says to it.
//!
//! An order is judged by the same knowledge as everything else and answered at once: the answer comes when the decision
//! was made, not when a sidecar has ended. It counts for what runs when it is given, it outlives no restart of the agent,
//! and each one that is taken stands in the pod's timeline.
//!
//! What a person says counts more than the node's mode and what the pod, its Namespace or the configuration leave alone.
//! It does not count more than the pod: an app that may yet run, a pod that would be spoiled, are reasons to refuse unless
//! the person insists.

use crate::{
    base::id::PodUid,
    decision::{GaveUp, NotApplicable, Requester, SkipReason, Verb, WaitReason},
    hold::NotHeld,
};

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The pod.
    pub pod: PodUid,
    /// What is asked for.
    pub verb: Verb,
    pub requester: Requester,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What is said to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is being done, or would be.
    Taken(Taken),
    /// There is nothing to do: all is as asked for.
    Nothing(String),
    /// It is not done.
    Refused(Refused),
}

/// What is done about an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// What, in words.
    pub says: String,
    /// What is set aside for it, such as the mode.
    pub despite: Vec<String>,
    /// The sidecars that are asked to quit, the first ones first.
    pub steps: Vec<FirstStep>,
    /// The ports at which connections wait or waited.
    pub ports: Vec<u16>,
}

/// The step that a sidecar is shown out with first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstStep {
    /// The sidecar.
    pub container: String,
    /// The step, in words.
    pub step: String,
    /// The exit code that is known to come of it.
    pub code: i32,
    /// What is to be known of it besides.
    pub note: Option<String>,
}

/// Why an order is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Refused {
    /// Nobody knows the pod.
    #[error("no such pod on this node")]
    NoPod,
    /// Not enough is known of it yet.
    #[error("{0}")]
    Unknown(WaitReason),
    /// An app of it may yet run.
    #[error("{0}")]
    AppRuns(WaitReason),
    /// There is nothing in it for usher to act upon.
    #[error("{0}")]
    NotApplicable(NotApplicable),
    /// Its processes cannot be seen.
    #[error(
        "the node's kernel shows none of its processes: a sandboxed runtime such as gVisor or Kata"
    )]
    Hidden,
    /// Somebody else ends it.
    #[error("{0}")]
    Skipped(SkipReason),
    /// All that is left would harm the pod.
    #[error("{container}: {why}")]
    Spoils {
        /// The sidecar.
        container: String,
        /// What is left, and what it would do.
        why: GaveUp,
    },
    /// Connections cannot be made to wait in it.
    #[error("{0}")]
    NotHeld(NotHeld),
    /// Its doors are being shut or opened.
    #[error("its doors are being shut or opened at this moment; ask again")]
    Busy,
    /// It was tried and failed.
    #[error("it could not be done; the timeline and the agent's log say why (usher explain)")]
    Failed,
}

impl Refused {
    /// Whether insisting helps.
    pub const fn yields_to_force(&self) -> bool {
        match self {
            Self::AppRuns(_) | Self::Spoils { .. } => true,
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

    /// The kind of refusal, as in JSON.
    pub const fn as_str(&self) -> &'static str {
        self.into_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each refusal: its word, what it says, and whether insisting helps.
    #[test]
    fn what_is_said_to_an_order_that_is_not_followed() {
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
                Refused::Spoils {
                    container: container(),
                    why: GaveUp::StillRuns,
                },
                "spoils",
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
                "its doors are being shut or opened at this moment; ask again",
                false,
            ),
            (
                Refused::Failed,
                "failed",
                "it could not be done; the timeline and the agent's log say why (usher explain)",
                false,
            ),
        ];
        for (why, word, says, yields) in cases {
            assert_eq!(why.as_str(), word);
            assert_eq!(why.to_string(), says);
            assert_eq!(why.yields_to_force(), yields, "{word}");
        }
    }
}
