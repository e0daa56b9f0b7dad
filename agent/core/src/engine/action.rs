//! What usher does: the output of [`crate::Engine::step`].
//!
//! Every action is idempotent: a sidecar that receives two requests exits once.

use std::time::Duration;

use crate::{
    base::id::{ContainerKey, PodUid, SandboxId},
    cni::protocol::Reply,
    decision::{Decision, Kind},
    engine::request::Answer,
    hold::{Probe, ruleset::Wanted},
    pod::spec::Pod,
    recipe::step::Step,
    start::Start,
};

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Action {
    /// Ask the kubelet for its pods, and answer with [`crate::Event::Pods`] or
    /// [`crate::Event::PodsUnavailable`]. There is never a second one of these
    /// before the answer.
    FetchPods,
    /// Ask the API server what a Namespace says, and answer with
    /// [`crate::Event::Namespace`].
    FetchNamespace(String),
    /// Ask this sidecar for its version by `GET` on loopback in the pod's
    /// network namespace, and answer with [`crate::Event::VersionAnswered`].
    AskVersion {
        /// The sidecar.
        key: ContainerKey,
        /// TCP port.
        port: u16,
        /// Path, beginning with a slash.
        path: String,
    },
    /// A request to this sidecar may be due at any moment from now on: open what
    /// it will need, so that nothing but the request stands between the end of
    /// the app and it. No answer is expected, and doing nothing is allowed.
    Prepare(ContainerKey),
    /// Try one step to make a sidecar quit, and answer with
    /// [`crate::Event::Attempted`].
    Attempt {
        /// The sidecar.
        key: ContainerKey,
        /// What to try.
        step: Step,
        /// How long it may take.
        timeout: Duration,
    },
    /// Reply to the plugin that announced this sandbox; it may have stopped waiting.
    Answer {
        /// The sandbox.
        sandbox: SandboxId,
        /// What becomes of its pod.
        reply: Reply,
    },
    /// Have connections wait in this sandbox, and answer with
    /// [`crate::Event::Armed`].
    Arm {
        /// The sandbox.
        sandbox: SandboxId,
        /// At which ports, and for how long.
        wanted: Wanted,
    },
    /// Find out when each of these is so in this sandbox, and answer each with
    /// [`crate::Event::Ready`].
    Watch {
        /// The sandbox.
        sandbox: SandboxId,
        /// What.
        probes: Vec<Probe>,
    },
    /// Let connections to some ports of this sandbox go. No answer is expected.
    OpenSome {
        /// The sandbox.
        sandbox: SandboxId,
        /// The ports.
        ports: Vec<u16>,
    },
    /// Let all connections of this sandbox go, leave nothing behind in it, and
    /// answer with [`crate::Event::Opened`]. Its namespace stays open.
    OpenAll {
        /// The sandbox.
        sandbox: SandboxId,
    },
    /// Have connections to these ports of this sandbox wait for so long from
    /// now on.
    Renew {
        /// The sandbox.
        sandbox: SandboxId,
        /// The ports.
        ports: Vec<u16>,
        /// How long.
        timeout: Duration,
    },
    /// Forget this sandbox and close everything of it.
    Forget {
        /// The sandbox.
        sandbox: SandboxId,
    },
    /// Open the network namespace of this container, look for what an earlier
    /// agent left in it, and answer with [`crate::Event::Found`]; not where it
    /// is the node's own.
    Look {
        /// The container.
        key: ContainerKey,
    },
    /// Hold the starts of these containers of a pod from now on, let those go
    /// that are not named any more, and tell [`crate::Event::Start`] what
    /// becomes of each.
    HoldStarts {
        /// The pod.
        pod: PodUid,
        /// The containers; none any more where it is empty.
        starts: Vec<Start>,
    },
    /// Do not hold the start of this container any more: it has ended.
    ReleaseStart {
        /// The container.
        key: ContainerKey,
    },
    /// Have the table of this sandbox be like this, in place of what is there.
    /// No answer is expected.
    Mend {
        /// The sandbox.
        sandbox: SandboxId,
        /// At which ports connections wait, and for how long yet.
        wanted: Wanted,
    },
    /// Reply to the operator of [`crate::Event::Ordered`].
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

    /// The kinds of all actions.
    pub const KINDS: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// The name of the variant, for spans and logs.
    pub const fn kind(&self) -> &'static str {
        self.into_str()
    }
}
