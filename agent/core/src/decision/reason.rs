//! Why something was decided, and what happens next, in words.

mod hold;
mod start;

use crate::{
    decision::{GaveUp, Kind, NotApplicable, SkipReason, WaitReason},
    quit::outcome::Outcome,
    settings::annotation,
};

pub(super) fn of(kind: &Kind) -> String {
    match kind {
        Kind::NotApplicable(why) => not_ours(why),
        Kind::Waiting(why) => not_yet(why),
        Kind::RuntimeUnsupported { runtime_class } => unsupported(runtime_class.as_deref()),
        Kind::VersionReported { version } => {
            format!("it told that it is version {version}; kept for its image")
        }
        Kind::PodFinished { sidecars } if sidecars.is_empty() => {
            "every app container ended for good and no sidecar runs yet".to_owned()
        }
        Kind::PodFinished { sidecars } => format!(
            "every app container ended for good; still running: {}",
            sidecars.join(", ")
        ),
        Kind::WouldQuit { recipe, step } => format!(
            "observe mode: nothing is done; enforce would try {step} first (recipe {recipe})"
        ),
        Kind::DrainAccepted { recipe, step, time } => {
            format!("{step} was accepted; it drains for {time:?} (recipe {recipe})")
        }
        Kind::QuitAccepted {
            recipe,
            step,
            outcome,
            code,
        } => {
            let known = match code {
                0 => String::new(),
                code => format!("; it is known to end with exit code {code} after that"),
            };
            format!("{step} {}{known} (recipe {recipe})", outcome.reason())
        }
        Kind::StepFailed {
            step,
            outcome,
            next,
            ..
        } => match next {
            Some(next) => format!("{step} {}; next is {next}", outcome.failure()),
            None => format!("{step} {}; nothing is left to try", outcome.failure()),
        },
        Kind::SidecarEnded { asked, status } => {
            let how = if *asked { "as asked" } else { "by itself" };
            let code = status.map_or(String::new(), |status| format!(", with {status}"));
            format!("the sidecar ended {how}{code}")
        }
        Kind::GaveUp { reason } => gave_up(reason),
        Kind::Skipped { reason } => left_alone(reason),
        Kind::InvalidAnnotation(bad) => format!(
            "{} {} is {:?}, not {}; ignored",
            bad.place.as_str(),
            bad.key,
            bad.value,
            bad.expected
        ),
        Kind::NotHeld(why) => hold::not_held(why),
        Kind::HoldArmed {
            doors,
            deadline,
            without_dns,
            starts,
        } => hold::armed(doors, *deadline, *without_dns, starts),
        Kind::HoldReleased {
            why,
            shut,
            adopted,
            tally,
        } => hold::opened(*why, *shut, *adopted, *tally),
        Kind::HoldFailed(failed) => hold::failed(failed),
        Kind::HoldStaysClosed { deadline } => format!(
            "the sidecar is not ready after {deadline:?}; connections wait on, as {} asks",
            annotation::ON_DEADLINE
        ),
        Kind::HoldAdopted { ports } if ports.is_empty() => {
            "an earlier agent had connections wait; its time was over before this agent came, and they go".to_owned()
        }
        Kind::HoldAdopted { ports } => format!(
            "an earlier agent had connections wait at {}; they wait on as long as that is wanted",
            ports
                .iter()
                .map(|port| format!(":{port}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        Kind::WouldHold {
            shut,
            tally,
            starts,
        } => hold::would_hold(*shut, *tally, starts),
        Kind::StartHeld(held) => start::held(held),
        Kind::StartReleased { why, held } => start::let_go(*why, *held),
        Kind::StartMissed => {
            "it started before that could be held; its connections wait from hold-armed on"
                .to_owned()
        }
        Kind::StartNotHeld(why) => {
            format!("its start is not held: {why}; its connections wait")
        }
        Kind::OperatorRequest(done) => done.reason(),
    }
}

fn not_ours(why: &NotApplicable) -> String {
    match why {
        NotApplicable::NoSidecar => format!(
            "no recipe recognises a sidecar in it; annotation {} names one",
            annotation::SIDECARS
        ),
        NotApplicable::NativeOnly { names } => format!(
            "its sidecars are native ones, which the kubelet ends: {}",
            names.join(", ")
        ),
        NotApplicable::NoApp => "it has sidecars only, and no app that could end".to_owned(),
        NotApplicable::NeverFinishes { container } => {
            format!("app container {container} is started again whatever its exit code")
        }
        NotApplicable::ExcludedNamespace => "the configuration excludes its namespace".to_owned(),
    }
}

fn not_yet(why: &WaitReason) -> String {
    match why {
        WaitReason::Unlisted => "the kubelet does not list it yet".to_owned(),
        WaitReason::NamespaceUnknown => {
            "the API server has not told yet what its Namespace says".to_owned()
        }
        WaitReason::NotStarted { container } => {
            format!("app container {container} has not started yet")
        }
        WaitReason::Runs { container } => format!("app container {container} runs"),
        WaitReason::ComesBack {
            container,
            code: None,
        } => format!("app container {container} ended and is started again"),
        WaitReason::ComesBack {
            container,
            code: Some(code),
        } => format!(
            "app container {container} ended with exit code {code} and is started again, by its restart policy or rules"
        ),
        WaitReason::CodeUnknown { container } => format!(
            "container {container} ended; whether it is started again depends on its exit code, which the kubelet is asked for"
        ),
        WaitReason::WholePodRestarts { container } => format!(
            "app container {container} is started again, since a rule restarts the whole pod"
        ),
        WaitReason::StatusUnknown { container } => format!(
            "only the kubelet can tell what became of container {container}, and its status does not say it yet"
        ),
        WaitReason::QuitDelay { delay } => {
            format!("{} asks to wait for {delay:?}", annotation::QUIT_DELAY)
        }
    }
}

fn unsupported(runtime_class: Option<&str>) -> String {
    let class = runtime_class.map_or(String::new(), |class| format!(" (RuntimeClass {class})"));
    format!(
        "the kubelet says that it runs, and the node's kernel shows none of its processes: a sandboxed runtime such as gVisor or Kata{class}; nothing is done"
    )
}

fn gave_up(reason: &GaveUp) -> String {
    match reason {
        GaveUp::StillRuns => "every step was tried and the sidecar still runs; delete the pod, \
                              or end the sidecar by hand"
            .to_owned(),
        GaveUp::ComesBack => "the sidecar is started again each time that it quits; look for a \
                              liveness probe, an exit code other than 0, or restartPolicy Always \
                              on it"
            .to_owned(),
        GaveUp::WouldSpoil { step, code, advice } => format!(
            "{step} would end the sidecar with exit code {code} and make a pod that succeeded a \
             failed one, which a Job runs again; {}, or allow it by annotation {}",
            cure(advice),
            annotation::SPOIL
        ),
        GaveUp::WouldRestart { step, code, advice } => format!(
            "{step} would end the sidecar with exit code {code}, after which it is started \
             again; {}",
            cure(advice)
        ),
    }
}

fn cure(advice: &str) -> &str {
    match advice {
        "" => "let it end with 0",
        advice => advice,
    }
}

fn left_alone(reason: &SkipReason) -> String {
    match reason {
        SkipReason::OptedOut => format!(
            "left alone: {} says \"false\" on the pod or its Namespace, or the configuration does",
            annotation::QUIT
        ),
        SkipReason::Deleting => "left alone: it is being deleted, the kubelet ends it".to_owned(),
        SkipReason::Terminal { reason } => {
            format!("left alone: the kubelet ends it as a whole ({reason})")
        }
    }
}

impl Outcome {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Accepted => "was accepted".to_owned(),
            Self::NoReply => "was taken without a reply".to_owned(),
            Self::Rejected(status) => format!("was answered with status {status}"),
            Self::Refused => "found nobody listening".to_owned(),
            Self::TimedOut => "was not answered in time".to_owned(),
            Self::Signalled => "was delivered".to_owned(),
            Self::Gone => "found the process gone".to_owned(),
            Self::NoProcess => "found no such process in the container".to_owned(),
            Self::Failed(why) => format!("could not be tried: {why}"),
        }
    }

    pub(crate) fn failure(&self) -> String {
        match self {
            Self::Accepted | Self::NoReply | Self::Signalled => {
                format!("{}, but the sidecar runs on", self.reason())
            }
            _ => self.reason(),
        }
    }

    /// The outcome's name in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NoReply => "no-reply",
            Self::Rejected(_) => "rejected",
            Self::Refused => "refused",
            Self::TimedOut => "timed-out",
            Self::Signalled => "signalled",
            Self::Gone => "gone",
            Self::NoProcess => "no-process",
            Self::Failed(_) => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::step::{Signal, Step};

    #[test]
    fn what_would_spoil_says_the_cure() {
        let step = || Step::signal(Signal::Term);
        let spoil = |advice: &str| GaveUp::WouldSpoil {
            step: step(),
            code: 143,
            advice: advice.to_owned(),
        };
        let restart = |advice: &str| GaveUp::WouldRestart {
            step: step(),
            code: 143,
            advice: advice.to_owned(),
        };
        let spoils = "SIGTERM would end the sidecar with exit code 143 and make a pod that succeeded a failed one, which a Job \
                      runs again; ";
        let or = ", or allow it by annotation usher.dev/spoil";
        let restarts =
            "SIGTERM would end the sidecar with exit code 143, after which it is started again; ";
        for (why, expected) in [
            (spoil(""), format!("{spoils}let it end with 0{or}")),
            (
                spoil("give it a flag"),
                format!("{spoils}give it a flag{or}"),
            ),
            (restart(""), format!("{restarts}let it end with 0")),
            (
                restart("give it a flag"),
                format!("{restarts}give it a flag"),
            ),
        ] {
            assert_eq!(gave_up(&why), expected);
        }
    }
}
