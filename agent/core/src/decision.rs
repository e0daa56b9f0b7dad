//! Decisions about pods, with the reasons that users read.
//!
//! Observe mode makes and records the same decisions; [`Kind::WouldQuit`] then takes the place of
//! [`crate::Action::Attempt`].

mod operator_request;
mod reason;
pub mod timeline;

use std::{sync::Arc, time::Duration};

pub use self::operator_request::{AcceptedRequest, Requester, Verb};
pub(crate) use self::reason::omitted_ports_text;
use crate::{
    base::{duration, id::PodUid},
    hold::{Failed, NotHeld, Released, Tally},
    linger,
    pod::{exit_status::ExitStatus, restart_policy::RestartPolicy},
    quit::outcome::Outcome,
    recipe::{
        ExitCode, Version,
        step::{Request, Step},
    },
    settings::{annotation, overrides::InvalidAnnotation},
    start::{self, Start, Why},
    worker::QuarantineReason,
};

/// The names of all decisions, as in logs and metrics.
pub const NAMES: &[&str] = <Kind as strum::VariantNames>::VARIANTS;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub pod: PodUid,
    /// `namespace/name` of the pod, or its UID before the kubelet listed it.
    pub pod_name: String,
    pub container: Option<String>,
    pub kind: Kind,
    /// Time since the last app container ended; None where usher did not observe its end.
    pub since_exit: Option<Duration>,
}

/// What was decided. [`std::fmt::Display`] gives the reason, the variant's name is the decision's name.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Kind {
    /// usher has nothing to do in this pod, at any time.
    NotApplicable(NotApplicable),
    /// The pod is not finished, or usher may not act on it yet.
    Waiting(WaitReason),
    /// The pod's processes are not visible on the node.
    RuntimeUnsupported {
        runtime_class: Option<String>,
    },
    /// A sidecar reported its version, which the tag of its image does not contain.
    VersionReported {
        version: Version,
    },
    /// Every app container finished; usher terminates these sidecars.
    PodFinished {
        sidecars: Vec<String>,
    },
    /// Observe mode: the step that enforce would try first.
    WouldQuit {
        recipe: Arc<str>,
        step: Step,
    },
    /// The sidecar drains before usher requests it to quit.
    DrainAccepted {
        recipe: Arc<str>,
        step: Step,
        time: Duration,
    },
    /// The sidecar accepted a step. Only the end of its process completes it.
    QuitAccepted {
        recipe: Arc<str>,
        step: Step,
        outcome: Outcome,
        code: ExitCode,
    },
    /// A step failed, or was accepted and the sidecar did not end.
    StepFailed {
        recipe: Arc<str>,
        step: Step,
        outcome: Outcome,
        next: Option<Step>,
    },
    /// A sidecar of a finished pod ended.
    SidecarEnded {
        /// Whether usher had requested it.
        requested: bool,
        /// None where the kernel did not report it.
        status: Option<ExitStatus>,
    },
    GaveUp {
        reason: GaveUp,
    },
    /// usher does not act on this finished pod.
    Skipped {
        reason: SkipReason,
    },
    /// The last app of a pod that is being deleted ended; usher terminates these sidecars.
    QuitOnDeletion {
        sidecars: Vec<String>,
    },
    /// Observe mode: the step that enforce would try first with a sidecar of a deleted pod.
    WouldQuitOnDeletion {
        recipe: Arc<str>,
        step: Step,
    },
    /// The last app of a pod that is being deleted ended; the kubelet ends the sidecar.
    LeftToKubelet(LeftToKubelet),
    /// An annotation or label is invalid and is ignored.
    InvalidAnnotation(InvalidAnnotation),
    /// usher does not hold connections of this pod.
    NotHeld(NotHeld),
    /// usher holds connections until the sidecars are ready.
    HoldArmed {
        /// The held ports, with the sidecar that listens there.
        held_ports: Vec<(String, u16)>,
        deadline: Duration,
        /// DNS queries are not held, because the kernel cannot.
        without_dns: bool,
        /// How many more ports are not held, because the pod has too many.
        omitted_ports: usize,
        /// The apps that are held at their start as well.
        starts: Vec<Start>,
    },
    HoldReleased {
        why: Released,
        /// How long this agent held them.
        held: Duration,
        /// Whether an earlier agent installed the hold.
        adopted: bool,
        tally: Tally,
    },
    /// Connections could not be held, or could not be released.
    HoldFailed(Failed),
    /// The deadline has passed, and connections stay held as the pod's annotation requests.
    HoldExtended {
        deadline: Duration,
    },
    /// usher found the hold of an earlier agent.
    HoldAdopted {
        /// The ports that are still held.
        ports: Vec<u16>,
    },
    /// The pod's network namespace delays the worker: usher quarantines it.
    Quarantined(QuarantineReason),
    /// Observe mode: what a hold would have prevented.
    WouldHold {
        /// Why a hold would have ended.
        why: Released,
        /// How long connections would have been held.
        held: Duration,
        /// The connections that were refused.
        tally: Tally,
        /// The apps that would have been held at their start, with the time.
        starts: Vec<(String, Duration)>,
    },
    /// The start of an app is held until its pod's connections are released.
    StartHeld(Start),
    /// The start of an app was released.
    StartReleased {
        why: Why,
        held: Duration,
    },
    /// An app started before usher could hold its start.
    StartMissed,
    /// The start of an app is not held although the pod requests it.
    StartNotHeld(start::NotHeld),
    /// The stop signal of a sidecar waits until the apps have ended.
    LingerHeld,
    /// A sidecar has received the stop signal that waited.
    LingerReleased {
        why: linger::Released,
        held: Duration,
    },
    /// A sidecar that lingers drains its inbound connections.
    LingerDrained {
        request: Request,
    },
    /// A sidecar that lingers does not drain its inbound connections.
    LingerDrainFailed {
        request: Request,
        outcome: Outcome,
    },
    /// The stop signal of an app waits for its pre-stop time.
    PreStopHeld,
    /// An app has received the stop signal that waited.
    PreStopReleased {
        why: linger::Released,
        held: Duration,
    },
    /// The stop signal of an app cannot be held although the pod requests it.
    PreStopUnsupported {
        reason: String,
    },
    /// A container whose stop signal was delayed ran until the end of the pod's grace period.
    LingerKilled,
    /// In observe mode: a sidecar of a deleted pod ended before the last app.
    WouldLinger {
        ended_before: Duration,
        /// The connections between containers of the pod that were open at its stop signal; None where they were not
        /// counted.
        connections: Option<u64>,
    },
    /// In observe mode: clients connected to an app of a deleted pod after its stop signal.
    WouldPreStop {
        /// How long the app ran after its stop signal.
        ran: Duration,
        connections: u64,
    },
    /// The stop signal of a sidecar cannot be held although the pod requests it.
    LingerUnsupported {
        reason: String,
    },
    /// An operator's request was accepted.
    OperatorRequest(AcceptedRequest),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotApplicable {
    #[error(
        "no recipe recognizes a sidecar in the pod; annotation {} can name one",
        annotation::SIDECARS
    )]
    NoSidecar,
    #[error(
        "the pod's sidecars are native ones, which the kubelet ends: {}",
        .names.join(", ")
    )]
    NativeOnly { names: Vec<String> },
    #[error("the pod has sidecars only, and no app that could end")]
    NoApp,
    #[error("app container {container} restarts whatever its exit code")]
    NeverFinishes { container: String },
    #[error("the configuration excludes the pod's namespace")]
    ExcludedNamespace,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitReason {
    #[error("the kubelet does not list the pod yet")]
    Unlisted,
    #[error("the API server has not returned the pod's Namespace yet")]
    NamespaceUnknown,
    #[error("app container {container} has not started yet")]
    NotStarted { container: String },
    #[error("app container {container} runs")]
    Runs { container: String },
    #[error("app container {container} ended {}", restart_text(*.code))]
    ComesBack {
        container: String,
        /// Its exit code, where it is known.
        code: Option<i32>,
    },
    #[error(
        "container {container} ended; whether it restarts depends on its exit code, which usher requests from the \
         kubelet"
    )]
    CodeUnknown { container: String },
    /// The rule is that of another container.
    #[error("app container {container} restarts, because a rule restarts the whole pod")]
    WholePodRestarts { container: String },
    #[error(
        "container {container} ended, and the kubelet has not reported whether it restarts it after {cause}"
    )]
    KubeletMayRestart {
        container: String,
        cause: KubeletRestart,
    },
    /// usher did not observe a run of the container.
    #[error(
        "the kernel did not show container {container}, and the kubelet has not reported its status yet"
    )]
    StatusUnknown { container: String },
    #[error("{} requests a wait of {}", annotation::QUIT_DELAY, duration::setting(*.delay))]
    QuitDelay { delay: Duration },
}

/// What the kubelet restarts a container for whatever its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum KubeletRestart {
    #[strum(to_string = "a failed probe")]
    FailedProbe,
    #[strum(to_string = "a resize")]
    Resize,
    #[strum(to_string = "a change of the pod's sandbox")]
    NewSandbox,
}

/// How the container restarts, as the end of a sentence.
fn restart_text(code: Option<i32>) -> String {
    match code {
        None => "and restarts".to_owned(),
        Some(code) => {
            format!("with exit code {code} and restarts, by its restart policy or rules")
        }
    }
}

/// Why no step is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GaveUp {
    StillRuns,
    /// The sidecar restarted each time that it ended.
    ComesBack,
    /// The remaining step ends the sidecar with this code and turns a succeeded pod into a failed one, or may do so.
    WouldFailPod {
        step: Step,
        code: ExitCode,
        /// What allows a clean end; empty where the recipe does not know it.
        advice: String,
    },
    /// The remaining step ends the sidecar with this code, after which it restarts, or may do so.
    WouldRestart {
        step: Step,
        code: ExitCode,
        /// What allows a clean end; empty where the recipe does not know it.
        advice: String,
    },
}

/// Why usher does not act on a finished pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    #[error(
        "the pod opted out: {} is \"false\" on the pod or its Namespace, or by the configuration",
        annotation::QUIT
    )]
    OptedOut,
    #[error("the pod is being deleted, and the kubelet terminates it")]
    Deleting,
    #[error("the kubelet terminates the whole pod ({reason})")]
    Terminal {
        /// `Evicted`, `DeadlineExceeded`, or its phase.
        reason: String,
    },
}

/// Why usher leaves a sidecar of a deleted pod to the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftToKubelet {
    #[error("{}", SkipReason::OptedOut)]
    OptedOut,
    #[error("the pod uses hostNetwork, so a request could reach another process of the node")]
    HostNetwork,
    #[error("under restartPolicy {policy} the exit code of a sidecar counts for the pod's phase")]
    RestartPolicy { policy: RestartPolicy },
    #[error("container {container} has restart rules, which depend on exit codes")]
    RestartRules { container: String },
    #[error("a log shipper sends what it has collected")]
    Flushes,
    #[error(
        "its arguments do not show that it is a sidecar; a gateway may serve connections until it ends"
    )]
    MayBeGateway,
    #[error("no request is known that ends it after SIGTERM")]
    NoStep,
    /// The recipe's steps do not work with these settings of the container.
    #[error("no request ends it sooner after SIGTERM ({why})")]
    StepExcluded { why: String },
    #[error("every step was tried and it still runs")]
    StillRuns,
}

impl Kind {
    /// Why it was decided, and what happens next.
    pub fn reason(&self) -> String {
        self.to_string()
    }
}
