//! Decisions, for people: what was decided about a pod, and why.
//!
//! In observe mode the same decisions are made and recorded; only
//! [`Kind::WouldQuit`] stands where [`crate::Action::Attempt`] would be.

mod reason;
pub mod timeline;

use std::{sync::Arc, time::Duration};

use crate::{
    base::id::PodUid,
    engine::request,
    hold::{Failed, NotHeld, Opened, Tally},
    pod::exit_status::ExitStatus,
    quit::outcome::Outcome,
    recipe::{Version, step::Step},
    settings::overrides::InvalidAnnotation,
    start::{self, Start, Why},
};

/// The names of all decisions: see [`Kind::as_str`].
pub const NAMES: [&str; 25] = [
    "not-applicable",
    "waiting",
    "runtime-unsupported",
    "version-reported",
    "pod-finished",
    "would-quit",
    "drain-accepted",
    "quit-accepted",
    "step-failed",
    "sidecar-ended",
    "gave-up",
    "skipped",
    "invalid-annotation",
    "not-held",
    "hold-armed",
    "hold-released",
    "hold-failed",
    "hold-stays-closed",
    "hold-adopted",
    "would-hold",
    "start-held",
    "start-released",
    "start-missed",
    "start-not-held",
    "operator-request",
];

/// One decision about one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The pod.
    pub pod: PodUid,
    /// `namespace/name` of the pod.
    pub pod_name: String,
    /// The container that it is about, if it is about one.
    pub container: Option<String>,
    /// What was decided.
    pub kind: Kind,
    /// How long ago the last app container ended; None where usher did not see
    /// it end.
    pub since_exit: Option<Duration>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// There is nothing for usher to do in this pod, ever.
    NotApplicable(NotApplicable),
    /// The pod is not finished, or not to be acted upon yet.
    Waiting(WaitReason),
    /// The pod's processes cannot be seen from the node.
    RuntimeUnsupported {
        /// The RuntimeClass that it asks for.
        runtime_class: Option<String>,
    },
    /// A sidecar told its version, which its image's tag does not.
    VersionReported {
        /// The version.
        version: Version,
    },
    /// Every app container ended for good; these sidecars are to quit.
    PodFinished {
        /// Names of the sidecars that have not ended.
        sidecars: Vec<String>,
    },
    /// Observe mode: this is what would be tried first.
    WouldQuit {
        /// Recipe by which the sidecar was recognised.
        recipe: Arc<str>,
        /// The first step of its ladder.
        step: Step,
    },
    /// The sidecar drains before it is asked to quit.
    DrainAccepted {
        /// Recipe by which the sidecar was recognised.
        recipe: Arc<str>,
        /// The step.
        step: Step,
        /// How long it is given.
        time: Duration,
    },
    /// A step was accepted: what counts now is whether the sidecar ends.
    QuitAccepted {
        /// Recipe by which the sidecar was recognised.
        recipe: Arc<str>,
        /// The step.
        step: Step,
        /// How it was accepted.
        outcome: Outcome,
        /// The exit code that is known to come of it.
        code: i32,
    },
    /// A step failed, or was accepted and the sidecar did not end.
    StepFailed {
        /// Recipe by which the sidecar was recognised.
        recipe: Arc<str>,
        /// The step.
        step: Step,
        /// What came of it.
        outcome: Outcome,
        /// What is tried next, if anything is left.
        next: Option<Step>,
    },
    /// The sidecar of a finished pod ended.
    SidecarEnded {
        /// Whether usher had asked it to.
        asked: bool,
        /// How it ended, where the kernel told.
        status: Option<ExitStatus>,
    },
    /// Nothing is left to try.
    GaveUp {
        /// Why.
        reason: GaveUp,
    },
    /// The pod is finished and is left as it is.
    Skipped {
        /// Why.
        reason: SkipReason,
    },
    /// An annotation or label cannot be used; the default counts.
    InvalidAnnotation(InvalidAnnotation),
    /// No connection waits in this pod.
    NotHeld(NotHeld),
    /// Connections wait until sidecars are ready.
    HoldArmed {
        /// The ports, by sidecar.
        doors: Vec<(String, u16)>,
        /// How long at most.
        deadline: Duration,
        /// DNS queries would have to wait as well and cannot.
        without_dns: bool,
        /// Apps whose starts wait as well.
        starts: Vec<Start>,
    },
    /// Connections do not wait any more.
    HoldReleased {
        /// Why.
        why: Opened,
        /// How long this agent saw the doors shut.
        shut: Duration,
        /// An earlier agent had shut them.
        adopted: bool,
        /// What had waited.
        tally: Tally,
    },
    /// Connections should wait and cannot be made to, or wait and cannot be let go.
    HoldFailed(Failed),
    /// The deadline has come, and connections wait on as the user chose.
    HoldStaysClosed {
        /// The deadline.
        deadline: Duration,
    },
    /// An earlier agent's hold was found.
    HoldAdopted {
        /// The ports that are shut.
        ports: Vec<u16>,
    },
    /// Observe mode: this is what a hold would have been for.
    WouldHold {
        /// How long the doors would have been shut.
        shut: Duration,
        /// Connections that were refused.
        tally: Tally,
        /// Apps whose starts would have waited, and how long.
        starts: Vec<(String, Duration)>,
    },
    /// The start of an app waits until its pod's doors open.
    StartHeld(Start),
    /// It does not wait any more.
    StartReleased {
        /// Why.
        why: Why,
        /// How long it waited.
        held: Duration,
    },
    /// An app had started before that could be held.
    StartMissed,
    /// The start of an app is not held although that was asked for.
    StartNotHeld(start::NotHeld),
    /// A person had this done.
    OperatorRequest(request::Done),
}

/// Why there is nothing to do in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotApplicable {
    /// No recipe recognises any of its containers.
    NoSidecar,
    /// Its sidecars are native ones, which the kubelet ends.
    NativeOnly {
        /// Their names.
        names: Vec<String>,
    },
    /// It has sidecars only.
    NoApp,
    /// This app container is started again whatever its exit code.
    NeverFinishes {
        /// Its name.
        container: String,
    },
    /// The configuration excludes its namespace.
    ExcludedNamespace,
}

/// What a pod still waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// The kubelet's list, which does not have it yet.
    Unlisted,
    /// What its Namespace says, which the API server has not told yet.
    NamespaceUnknown,
    /// An app container that has not started, or is being started.
    NotStarted {
        /// Its name.
        container: String,
    },
    /// An app container that runs.
    Runs {
        /// Its name.
        container: String,
    },
    /// An app container that ended and is started again.
    ComesBack {
        /// Its name.
        container: String,
        /// Its exit code, where it is known.
        code: Option<i32>,
    },
    /// The exit code of an app container, which decides.
    CodeUnknown {
        /// Its name.
        container: String,
    },
    /// An app container that is started again since another one's rule
    /// restarts the whole pod.
    WholePodRestarts {
        /// Its name.
        container: String,
    },
    /// An app container that the kubelet says has run, where the kernel never
    /// showed it, or the name of a container that ended too soon to tell.
    StatusUnknown {
        /// Its name.
        container: String,
    },
    /// The wait that was asked for.
    QuitDelay {
        /// All of it.
        delay: Duration,
    },
}

/// Why there is nothing left to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GaveUp {
    /// Every step was tried and the sidecar still runs.
    StillRuns,
    /// The sidecar was started again each time that it quit.
    ComesBack,
    /// What is left would end it with this code, and so make a pod that
    /// succeeded a failed one.
    WouldSpoil {
        /// The step.
        step: Step,
        /// The code.
        code: i32,
        /// What would allow a clean end, where the recipe knows it.
        advice: String,
    },
    /// What is left would end it with this code, after which it is started
    /// again.
    WouldRestart {
        /// The step.
        step: Step,
        /// The code.
        code: i32,
        /// What would allow a clean end, where the recipe knows it.
        advice: String,
    },
}

/// Why a finished pod is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// The pod's annotation, its Namespace or the configuration says so.
    OptedOut,
    /// It is being deleted: the kubelet ends it.
    Deleting,
    /// The kubelet has ended it as a whole, or will.
    Terminal {
        /// Why: `Evicted`, `DeadlineExceeded`, or its phase.
        reason: String,
    },
}

impl Kind {
    /// The decision's name in logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotApplicable(_) => "not-applicable",
            Self::Waiting(_) => "waiting",
            Self::RuntimeUnsupported { .. } => "runtime-unsupported",
            Self::VersionReported { .. } => "version-reported",
            Self::PodFinished { .. } => "pod-finished",
            Self::WouldQuit { .. } => "would-quit",
            Self::DrainAccepted { .. } => "drain-accepted",
            Self::QuitAccepted { .. } => "quit-accepted",
            Self::StepFailed { .. } => "step-failed",
            Self::SidecarEnded { .. } => "sidecar-ended",
            Self::GaveUp { .. } => "gave-up",
            Self::Skipped { .. } => "skipped",
            Self::InvalidAnnotation(_) => "invalid-annotation",
            Self::NotHeld(_) => "not-held",
            Self::HoldArmed { .. } => "hold-armed",
            Self::HoldReleased { .. } => "hold-released",
            Self::HoldFailed(_) => "hold-failed",
            Self::HoldStaysClosed { .. } => "hold-stays-closed",
            Self::HoldAdopted { .. } => "hold-adopted",
            Self::WouldHold { .. } => "would-hold",
            Self::StartHeld(_) => "start-held",
            Self::StartReleased { .. } => "start-released",
            Self::StartMissed => "start-missed",
            Self::StartNotHeld(_) => "start-not-held",
            Self::OperatorRequest(_) => "operator-request",
        }
    }

    /// Why, and what happens next, as a sentence for a log line.
    pub fn reason(&self) -> String {
        reason::of(self)
    }
}
