//! The values of labels, as types: a label has no other values.

use strum::VariantNames;

use crate::{cni::protocol, hold::Released, start::Why};

/// A label's value, from a closed list.
pub trait Value {
    const NAMES: &'static [&'static str];

    fn name(&self) -> &'static str;
}

impl<V> Value for V
where
    V: VariantNames,
    for<'a> &'a V: Into<&'static str>,
{
    const NAMES: &'static [&'static str] = V::VARIANTS;

    fn name(&self) -> &'static str {
        self.into()
    }
}

/// The result of sending a Kubernetes Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum EventResult {
    Sent,
    /// The queue was full.
    Dropped,
    /// The Event, or the namespace of the object that it regards, is gone.
    Gone,
    /// The API server rejected it.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version;

impl Value for Version {
    const NAMES: &'static [&'static str] = &[env!("CARGO_PKG_VERSION")];

    fn name(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// A capability with its own mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Capability {
    Quit,
    Hold,
    Linger,
}

/// The result of a request for the kubelet's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum KubeletResult {
    Ok,
    /// The connection could not be opened, or broke.
    Connect,
    Timeout,
    /// The certificate of the kubelet or of the agent is not accepted.
    Tls,
    /// The agent cannot read its own token.
    Token,
    Unauthorized,
    Forbidden,
    ServerError,
    /// The reply is not a valid list of pods.
    Decode,
}

/// Why a pod of the kubelet's list is skipped.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum PodSkipReason {
    /// It does not have the fields of a pod.
    Invalid,
    /// It alone is larger than usher permits.
    TooLarge,
    /// All pods together are larger than usher permits.
    OverBudget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum NamespaceResult {
    Ok,
    NotFound,
    Forbidden,
    /// No reply, or an error.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum ConfigResult {
    Ok,
    Rejected,
}

/// A file of the run directory that is replaced atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
pub enum RunFile {
    #[strum(serialize = "node-annotations.json")]
    NodeAnnotations,
    #[strum(serialize = "node-labels.json")]
    NodeLabels,
    #[strum(serialize = "namespaces.json")]
    Namespaces,
    #[strum(serialize = "config.yaml")]
    Config,
}

/// The reply to an announcement of the CNI plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum AnnouncementResult {
    Held,
    /// Nothing is held in the sandbox.
    NotHeld,
    /// Connections could not be held.
    Failed,
    /// The message is invalid, or not from the plugin.
    Refused,
    /// The agent did not reply in time.
    Unanswered,
}

/// The operation that failed while the agent discovered pods, containers or processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum DiscoveryOperation {
    InotifyInit,
    InotifyRead,
    /// The kernel's queue overflowed, and the agent listed the cgroups again.
    InotifyOverflow,
    InotifyBusy,
    InotifyWatch,
    CgroupList,
    CgroupProcs,
    Proc,
    Pidfd,
    Netns,
    NoProcess,
}

impl From<protocol::Outcome> for AnnouncementResult {
    fn from(outcome: protocol::Outcome) -> Self {
        match outcome {
            protocol::Outcome::Held => Self::Held,
            protocol::Outcome::NotHeld => Self::NotHeld,
            protocol::Outcome::Failed => Self::Failed,
        }
    }
}

/// How the hold of a pod's connections ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldResult {
    Released(Released),
    /// Connections could not be held.
    Failed,
}

impl Value for HoldResult {
    const NAMES: &'static [&'static str] = &concat::<9>(Released::VARIANTS, &["failed"]);

    fn name(&self) -> &'static str {
        match self {
            Self::Released(why) => why.into_str(),
            Self::Failed => "failed",
        }
    }
}

/// How the hold of a start ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartHoldResult(pub Why);

impl Value for StartHoldResult {
    const NAMES: &'static [&'static str] =
        &concat::<11>(Released::VARIANTS, Why::VARIANTS.split_at(1).1);

    fn name(&self) -> &'static str {
        self.0.as_str()
    }
}

/// Both lists; their lengths add up to `N`, or compilation fails.
const fn concat<const N: usize>(
    first: &[&'static str],
    second: &[&'static str],
) -> [&'static str; N] {
    assert!(
        first.len() + second.len() == N,
        "N is the length of both lists"
    );
    let mut all = [""; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() {
            first[at]
        } else {
            second[at - first.len()]
        };
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_types_are_listed_in_order() {
        let holds = [
            HoldResult::Released(Released::Ready),
            HoldResult::Released(Released::ProbeFailed),
            HoldResult::Released(Released::Deadline),
            HoldResult::Released(Released::SidecarEnded),
            HoldResult::Released(Released::Ending),
            HoldResult::Released(Released::NotWanted),
            HoldResult::Released(Released::InitContainer),
            HoldResult::Released(Released::ByOperator),
            HoldResult::Failed,
        ];
        assert_eq!(holds.map(|one| one.name()), HoldResult::NAMES);
        let starts = [
            Why::Released(Released::Ready),
            Why::Released(Released::ProbeFailed),
            Why::Released(Released::Deadline),
            Why::Released(Released::SidecarEnded),
            Why::Released(Released::Ending),
            Why::Released(Released::NotWanted),
            Why::Released(Released::InitContainer),
            Why::Released(Released::ByOperator),
            Why::Limit,
            Why::HolderEnded,
            Why::ContainerEnded,
        ];
        assert_eq!(
            starts.map(|why| StartHoldResult(why).name()),
            StartHoldResult::NAMES
        );
    }
}
