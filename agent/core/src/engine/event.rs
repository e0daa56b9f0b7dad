//! What happens: the input of [`crate::Engine::apply`].

use std::sync::Arc;

use crate::{
    base::id::{ContainerKey, PodUid, SandboxId},
    cni::protocol::Request,
    engine::request::OperatorRequest,
    hold::{Features, Probe, Remains, Tally},
    linger::{StopResult, pre_stop::traffic::Sample},
    pod::{container_change::ContainerChange, spec::Pod},
    quit::outcome::Outcome,
    settings::{config::Config, mode::Modes, overrides::NamespaceValues},
    start::StartResult,
    worker::QuarantineReason,
};

/// The result of [`crate::Action::FetchNamespace`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceReply {
    /// The current values.
    Read(NamespaceValues),
    /// The request failed. `last` has the values of the last successful request.
    Failed { last: Option<NamespaceValues> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Modes(Modes),
    /// Together: with the modes of the earlier configuration, the new one may act on pods that the earlier one excluded.
    Configured {
        config: Arc<Config>,
        modes: Modes,
    },
    Namespace {
        name: String,
        reply: NamespaceReply,
    },
    /// The kubelet's list of all pods of the node.
    Pods(Vec<Pod>),
    /// The kubelet's list failed.
    PodsUnavailable,
    /// The cgroup tree has been walked once: every pod and container that existed before has been reported.
    Walked,
    /// The cgroup of a pod exists.
    PodAppeared(PodUid),
    /// The cgroup of a pod is gone.
    PodGone(PodUid),
    Container {
        key: ContainerKey,
        change: ContainerChange,
    },
    /// An attempt of [`crate::Action::Attempt`] is over.
    Attempted {
        key: ContainerKey,
        outcome: Outcome,
    },
    /// The request of [`crate::Action::Drain`] is over.
    Drained {
        key: ContainerKey,
        outcome: Outcome,
    },
    /// The reply to [`crate::Action::AskVersion`]; None where there is none.
    VersionAnswered {
        key: ContainerKey,
        /// The text where the reply has the version.
        version: Option<String>,
    },
    Kernel(Features),
    /// The plugin announces a pod's network namespace, in which no process is
    /// yet. The reply is [`crate::Action::Answer`].
    Sandbox(Request),
    /// The table of this sandbox is installed, or cannot be.
    Armed {
        sandbox: SandboxId,
        result: Result<(), String>,
    },
    /// A probe of [`crate::Action::Watch`] succeeded.
    Ready {
        sandbox: SandboxId,
        probe: Probe,
    },
    /// A probe of [`crate::Action::Watch`] could not be made, and runs no more.
    ProbeFailed {
        sandbox: SandboxId,
        probe: Probe,
    },
    /// The ports of this sandbox are released, or cannot be.
    Released {
        sandbox: SandboxId,
        result: Result<Tally, String>,
    },
    /// The network namespace of this container is open. It belongs to a sandbox, which has the container's id from
    /// now on.
    Found {
        key: ContainerKey,
        sandbox: SandboxId,
        remains: Option<Remains>,
    },
    /// [`crate::Action::Look`] opened no namespace.
    NotFound {
        key: ContainerKey,
    },
    /// The network namespace of this container or sandbox is in quarantine.
    Quarantined {
        subject: Subject,
        reason: QuarantineReason,
    },
    /// Whether starts can be held on this node from now on, and the reason if not.
    StartSupport(Result<(), String>),
    /// The holder reports about the start of a container of [`crate::Action::HoldStarts`].
    Start {
        key: ContainerKey,
        name: String,
        result: StartResult,
    },
    /// The holder reports about the stop signal of a container of
    /// [`crate::Action::HoldStops`].
    Stop {
        key: ContainerKey,
        name: String,
        result: StopResult,
    },
    /// The result of [`crate::Action::SampleTraffic`].
    TrafficSampled {
        key: ContainerKey,
        sample: Result<Sample, String>,
    },
    /// An operator's request. The same step has one [`crate::Action::Reply`] to it.
    Operator(OperatorRequest),
    /// The time that [`crate::Engine::next_wake`] returned has come.
    Timer,
}

/// The subject of a job of the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Container(ContainerKey),
    Sandbox(SandboxId),
}

impl Event {
    pub const fn container(key: ContainerKey, change: ContainerChange) -> Self {
        Self::Container { key, change }
    }

    /// Whether it reports the end of a container or of a pod.
    pub const fn is_end(&self) -> bool {
        match self {
            Self::PodGone(_) => true,
            Self::Container { change, .. } => change.is_end(),
            _ => false,
        }
    }
}
