//! Holding a pod's connections until its sidecars are ready.
//!
//! A held port ([`HeldPort`]) is released when its sidecar is ready, at the deadline, or when no sidecar will ever be ready.
//! `state` has the phase of a hold, `lifecycle` its transitions, `ports` and `listeners` the release of single ports, and
//! `conditions` the facts on which they depend. `ruleset` is the nftables table that holds the ports.

pub(crate) mod conditions;
pub(crate) mod lifecycle;
mod listeners;
pub(crate) mod manual;
mod ports;
pub(crate) mod review;
pub mod ruleset;
pub(crate) mod state;
pub mod syn;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::listeners::PROBE_GRACE;
use crate::{
    hold::ruleset::{Queue, Ruleset, Then},
    settings::annotation,
};

/// Limit of the held ports of a pod.
pub const MAX_HELD_PORTS: usize = 64;

/// A port with connections that are held until a sidecar is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPort {
    /// Name of the sidecar's container.
    pub sidecar: String,
    /// The port that a mesh redirects to, or a port that the sidecar listens on.
    pub port: u16,
    /// The port also receives DNS queries, by UDP.
    pub dns: bool,
    /// The probe that releases it.
    pub probe: Probe,
    /// The port of the mesh's captured connections, for this port and that of its DNS. A proxy that has listened there
    /// for a while serves, whether its readiness can be probed or not.
    pub captured: Option<u16>,
    /// The recipe only assumes that the sidecar listens there: it may use another port of its kind.
    pub is_assumed: bool,
}

/// The probe of a sidecar's readiness.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Probe {
    /// A process listens on this TCP port on loopback.
    Listens { port: u16 },
    /// A `GET` on loopback is answered with a status of 2xx.
    Answers { port: u16, path: String },
}

/// The kernel features that holds need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Why no connection can be held, if so.
    pub hold: Result<(), String>,
    /// How DNS queries can be held, if they can be.
    pub dns: Option<Queue>,
    /// Why no start can be held, if so.
    pub start: Result<(), String>,
}

/// What was held when the ports of a pod were released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Held connections; in observe mode refused ones.
    pub connections: usize,
    /// Held connections that the kernel released before, when their timeout had expired.
    pub by_kernel: usize,
    /// How long the longest of them waited, until its own port was released.
    pub longest: Duration,
    /// How long before this report the ports were released.
    pub ago: Duration,
    /// Copies that were dropped for lack of room. Their connections continue with their own next retransmission.
    pub lost: usize,
}

/// The table of an earlier agent in a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    /// The held ports, and how long the kernel still holds them.
    pub ports: Vec<(u16, Duration)>,
    /// The table only counts.
    pub count_only: bool,
    /// DNS queries are held as well.
    pub queries: bool,
}

impl Remains {
    pub fn of(table: &Ruleset, ports: Vec<(u16, Duration)>) -> Self {
        let rules = table.chains.iter().flat_map(|chain| &chain.rules);
        let then: Vec<&Then> = rules.flat_map(|rule| &rule.then).collect();
        Self {
            ports,
            count_only: !then.iter().any(|then| matches!(then, Then::Drop)),
            queries: then.iter().any(|then| matches!(then, Then::Queue(..))),
        }
    }
}

/// Why no connection of a pod is held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    #[error("the mode of hold on this node is off")]
    Off,
    #[error("the node's kernel cannot hold connections: {lacks}")]
    Kernel { lacks: String },
    #[error("the configuration excludes the pod's namespace")]
    ExcludedNamespace,
    #[error("the pod uses the host's network namespace")]
    HostNetwork,
    #[error(
        "the pod's sidecars are native ones, which are ready before the apps start: {}",
        .names.join(", ")
    )]
    NativeOnly { names: Vec<String> },
    #[error(
        "no recipe recognizes a sidecar in the pod; annotation {} can declare the ports of one",
        annotation::HOLD_PORTS
    )]
    NoSidecar,
    #[error(
        "no recipe knows a port of the pod's sidecars that apps connect to; annotation {} can declare some",
        annotation::HOLD_PORTS
    )]
    NoHeldPort,
    #[error(
        "the pod's sidecars have {ports} ports, and usher holds at most {MAX_HELD_PORTS} ports of a pod; annotation {} \
         can declare some",
        annotation::HOLD_PORTS
    )]
    TooManyPorts { ports: usize },
    #[error("the pod has sidecars only, and no app that could connect")]
    NoApp,
    #[error(
        "the pod opted out: {} is \"false\" on the pod or its Namespace, or by the configuration",
        annotation::HOLD
    )]
    OptedOut,
    #[error("the pod is being deleted, or its apps have ended")]
    Ending,
    /// There is no table of an earlier agent either.
    #[error("the pod's apps had started before their connections could be held")]
    Late,
    #[error("the pod's apps had started before its Namespace could be read")]
    NamespaceReadLate,
}

/// Why the held ports of a pod were released.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    thiserror::Error,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Released {
    #[error("the sidecar is ready")]
    Ready,
    #[error(
        "the sidecar listens, but its readiness probe has not succeeded within 2 s: connections are released"
    )]
    ProbeFailed,
    #[error(
        "the sidecar is not ready at the deadline: connections are released and may be refused"
    )]
    Deadline,
    #[error("the sidecar ended and does not restart")]
    SidecarEnded,
    #[error("the pod is being deleted, or its apps have ended")]
    #[serde(rename = "pod-ending")]
    #[strum(serialize = "pod-ending")]
    Ending,
    #[error("mode, annotations or configuration no longer request the hold")]
    NotWanted,
    #[error("an init container runs, which the sidecar waits for")]
    InitContainer,
    #[error("an operator released it")]
    #[serde(rename = "operator")]
    #[strum(serialize = "operator")]
    ByOperator,
}

/// The texts are errors of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    #[error("connections cannot be held and may be refused: {0}")]
    Arm(String),
    /// The process that held the connections ended, which releases them.
    #[error("the hold ended unexpectedly; connections are released and may be refused")]
    Lost,
    #[error(
        "connections cannot be released, and wait until the kernel releases them at the deadline: {0}"
    )]
    Release(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::ruleset::Wanted;

    #[test]
    fn remains_follow_from_the_rules_of_the_table() {
        for (count_only, dns, queries) in [
            (false, None, false),
            (false, Some(Queue::Native), true),
            (false, Some(Queue::Compat), true),
            (true, None, false),
        ] {
            let table = Ruleset::of(&Wanted {
                count_only,
                dns,
                ..Wanted::default()
            });
            let ports = vec![(15001, Duration::from_secs(3))];
            let expected = Remains {
                ports: ports.clone(),
                count_only,
                queries,
            };
            assert_eq!(Remains::of(&table, ports), expected, "{dns:?}");
        }
    }
}
