//! Linger: the stop signal of a deleted pod's sidecars waits until its apps have ended.
//!
//! The runtime sends a stop signal by a command, `runc kill ID SIGNAL`, which opens the container's state first. The
//! kernel asks the *holder* process before that open, and the holder holds the first such command
//! ([`crate::start::Holder`]). The engine decides which sidecars linger, and when each command continues (`review`).

mod candidate;
mod command;
mod drain;
mod late;
mod observe;
mod policy;
pub mod pre_stop;
mod report;
mod reserve;
mod result;
pub(crate) mod review;
pub(crate) mod state;

use std::time::Duration;

pub(crate) use self::policy::{limit, longest};
pub use self::{
    command::{LONGEST_COMMAND, stopped_container},
    policy::NoLinger,
    pre_stop::quiet::{FLOOR, SILENCE},
};
use crate::base::{duration, id::ContainerId};

/// A stop signal that is to be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    pub id: ContainerId,
    pub container: String,
    pub is_app: bool,
    /// Limit of the hold, from the moment that the signal waits.
    pub limit: Duration,
    /// The limit that the annotation sets. The grace period may leave less.
    pub setting: Option<Duration>,
    /// In observe mode: the signal is reported and does not wait.
    pub is_observed: bool,
}

/// What the holder reports about the stop signal of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopResult {
    /// The stop signal of this container will not be held, for this reason.
    Unsupported(String),
    /// The stop signal waits since this time (since 1970-01-01T00:00:00Z).
    Held { at: Duration },
    Released {
        held: Duration,
        /// The reason is its own limit.
        at_limit: bool,
    },
    /// The holder exited, and the kernel released the stop signal.
    Lost,
    /// In observe mode: the runtime has executed a command that probably sends the stop signal.
    Observed,
}

/// Why a stop signal no longer waits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Released {
    #[error("no app of the pod runs")]
    AppsEnded,
    #[error("the sidecar ended by itself")]
    SidecarEnded,
    /// The kubelet restarts the sidecar, or evicts the pod.
    #[error("the pod is not being deleted")]
    NotDeleted,
    /// The deletion of the pod was forced.
    #[error("the kubelet no longer lists the pod")]
    Unlisted,
    #[error("the kubelet did not confirm that the pod is being deleted")]
    Unconfirmed,
    #[error("the rest of the pod's grace period is for the sidecar; an app still runs")]
    Deadline,
    /// The limit that the annotation sets.
    #[error("its limit has passed; an app still runs")]
    Limit,
    /// The deadline or the limit came, or the holder ended, after the end of the apps.
    #[error("no app of the pod runs; a sidecar of an earlier stage still runs")]
    EarlierStage,
    #[error("the mode, annotations or the pod changed")]
    NotWanted,
    #[error("an operator released it")]
    #[strum(serialize = "operator")]
    ByOperator,
    #[error("the process that held it ended")]
    HolderEnded,
    #[error("clients have sent nothing for {}", duration::setting(SILENCE))]
    Quiet,
    #[error(
        "its least time of {least} has passed, and its traffic cannot be measured: {0}",
        least = duration::setting(FLOOR)
    )]
    Floor(Unmeasured),
}

/// Why the traffic of an app is not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unmeasured {
    /// Its sockets are among those of the node.
    #[error("the pod uses hostNetwork")]
    HostNetwork,
    /// usher does not measure UDP.
    #[error("the pod listens at no TCP port for clients")]
    NoListener,
    #[error("its sockets could not be read")]
    Failed,
}

pub(crate) fn describe_app(why: Released, held: Duration) -> String {
    let why = match why {
        Released::Limit => "its pre-stop time has passed".to_owned(),
        Released::Deadline => "the rest of the pod's grace period is for the app".to_owned(),
        Released::SidecarEnded => "the app ended by itself".to_owned(),
        why => why.to_string(),
    };
    format!(
        "{why}; its stop signal was held for {}",
        duration::elapsed(held)
    )
}

pub(crate) fn describe(why: Released, held: Duration) -> String {
    format!(
        "{why}; its stop signal was held for {}",
        duration::elapsed(held)
    )
}
