//! The worker process, which does everything inside the network namespaces of pods.
//!
//! A pod with `NET_ADMIN` can delay one system call in its namespace for minutes, because its own packet filter runs
//! in the call. So the event loop only sends jobs ([`message::Job`]) and receives replies ([`message::Reply`]). A pod
//! for which a job is stuck is quarantined ([`quarantine`]).

pub mod message;
pub mod quarantine;

/// The most expressions of rules that may be evaluated for one packet of a pod: 3 ms of the kernel's time. A request has
/// about ten packets.
pub const MAX_EVALUATIONS: u64 = 100_000;

/// Why a pod is quarantined.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    thiserror::Error,
    serde::Serialize,
    serde::Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum QuarantineReason {
    #[error("a system call in the pod's network namespace did not return in time")]
    Stuck,
    #[error(
        "the packet filter in the pod's network namespace may evaluate more than {MAX_EVALUATIONS} expressions for one \
         packet"
    )]
    CostlyRules,
}
