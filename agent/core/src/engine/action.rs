//! What usher does: the output of [`crate::Engine::apply`].
//!
//! Every action is idempotent: a sidecar that receives two requests exits once.

use std::time::Duration;

use crate::{
    base::id::{ContainerKey, PodUid, SandboxId},
    cni::protocol::Reply,
    decision::{Decision, Kind},
    engine::request::Answer,
    hold::{Probe, ruleset::Wanted},
    linger::Stop,
    plan::version_query::VersionRequest,
    pod::spec::Pod,
    recipe::step::{Request, Step},
    start::Start,
};

#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Action {
    /// List the kubelet's pods; the result is [`crate::Event::Pods`] or
    /// [`crate::Event::PodsUnavailable`]. At most one of these is in flight.
    FetchPods,
    /// Read a Namespace from the API server; the result is [`crate::Event::Namespace`].
    FetchNamespace(String),
    /// Query the version of this sidecar by `GET` on loopback in the pod's
    /// network namespace; the result is [`crate::Event::VersionAnswered`].
    AskVersion {
        key: ContainerKey,
        request: VersionRequest,
    },
    /// Open the socket for the first request to this sidecar, so that the exit of the app
    /// leads to the request without delay. It has no result, and is optional.
    Prepare(ContainerKey),
    /// Try one step to terminate a sidecar; the result is [`crate::Event::Attempted`].
    Attempt {
        key: ContainerKey,
        step: Step,
        timeout: Duration,
    },
    /// Send this request to a sidecar that lingers, which drains its inbound connections; the result is
    /// [`crate::Event::Drained`].
    Drain {
        key: ContainerKey,
        request: Request,
        timeout: Duration,
    },
    /// Reply to the plugin that announced this sandbox; it may have stopped waiting.
    Answer {
        sandbox: SandboxId,
        /// The outcome for its pod.
        reply: Reply,
    },
    /// Install the table that holds connections in this sandbox; the result is [`crate::Event::Armed`].
    Arm {
        sandbox: SandboxId,
        /// The held ports with their timeouts.
        wanted: Wanted,
    },
    /// Run these probes in this sandbox until they succeed; the result of each is [`crate::Event::Ready`], or
    /// [`crate::Event::ProbeFailed`].
    Watch {
        sandbox: SandboxId,
        probes: Vec<Probe>,
    },
    /// Release some ports of this sandbox. It has no result.
    ReleasePorts { sandbox: SandboxId, ports: Vec<u16> },
    /// Release all ports of this sandbox and delete the table; the result is
    /// [`crate::Event::Released`]. The namespace stays open.
    ReleaseAll { sandbox: SandboxId },
    /// Renew the timeout of these held ports.
    Renew {
        sandbox: SandboxId,
        ports: Vec<u16>,
        timeout: Duration,
    },
    /// Forget this sandbox and close everything of it.
    Forget { sandbox: SandboxId },
    /// Open the network namespace of this container and look for the table of an earlier
    /// agent; the result is [`crate::Event::Found`]. The node's own namespace has no result.
    Look { key: ContainerKey },
    /// Hold the starts of these containers of a pod from now on, and release the
    /// others; the results are [`crate::Event::Start`].
    HoldStarts {
        pod: PodUid,
        /// The containers to hold; empty to hold none.
        starts: Vec<Start>,
    },
    /// Stop holding the start of this container, which has ended.
    ReleaseStart { key: ContainerKey },
    /// Hold or observe the stop signals of these containers of a pod from now on, and release the
    /// others; the results are [`crate::Event::Stop`].
    HoldStops { pod: PodUid, stops: Vec<Stop> },
    /// Sample what clients have sent to the pod of this container, which has its stop signal or is to have it; the result
    /// is [`crate::Event::TrafficSampled`].
    SampleTraffic {
        key: ContainerKey,
        /// Ports of the pod's sidecars that serve no clients.
        status_ports: Vec<u16>,
    },
    /// Replace the table of this sandbox. It has no result.
    Repair {
        sandbox: SandboxId,
        /// The held ports with the rest of their timeouts.
        wanted: Wanted,
    },
    /// Reply to the operator of [crate::Event::Operator`].
    Reply(Answer),
    /// Record a decision: log, metrics, timeline.
    Report(Decision),
}

impl Action {
    /// Records a decision about a pod; before the kubelet lists the pod, its UID is its name.
    pub(crate) fn report(
        uid: &PodUid,
        spec: Option<&Pod>,
        container: Option<&str>,
        kind: Kind,
        since_exit: Option<Duration>,
    ) -> Self {
        Self::Report(Decision {
            pod: uid.clone(),
            pod_name: spec.map_or_else(|| uid.to_string(), Pod::display_name),
            container: container.map(str::to_owned),
            kind,
            since_exit,
        })
    }

    pub const KINDS: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// The name of the variant, for spans and logs.
    pub const fn kind(&self) -> &'static str {
        self.into_str()
    }
}
