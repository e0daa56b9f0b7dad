//! The text of a decision. The texts of its parts are at their types.

mod hold;
mod quit;
mod start;

use std::fmt;

pub(crate) use self::hold::omitted_ports_text;
use crate::{base::duration, decision::Kind, linger, recipe::ExitCode, settings::annotation};

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotApplicable(why) => why.fmt(out),
            Self::Waiting(why) => why.fmt(out),
            Self::RuntimeUnsupported { runtime_class } => {
                out.write_str(
                    "the kubelet reports the pod as running, but the node's kernel shows none of its processes: a \
                     sandboxed runtime such as gVisor or Kata",
                )?;
                if let Some(class) = runtime_class {
                    write!(out, " (RuntimeClass {class})")?;
                }
                out.write_str("; usher does not act")
            }
            Self::VersionReported { version } => {
                write!(out, "the sidecar reported version {version}; remembered for its image")
            }
            Self::PodFinished { sidecars } if sidecars.is_empty() => {
                out.write_str("every app container ended for good, and no sidecar runs yet")
            }
            Self::PodFinished { sidecars } => write!(
                out,
                "every app container ended for good; still running: {}",
                sidecars.join(", ")
            ),
            Self::WouldQuit { recipe, step } => write!(
                out,
                "observe mode: no action; enforce would try {step} first (recipe {recipe})"
            ),
            Self::DrainAccepted { recipe, step, time } => write!(
                out,
                "{step} was accepted; the sidecar drains for {} (recipe {recipe})",
                duration::setting(*time)
            ),
            Self::QuitAccepted {
                recipe,
                step,
                outcome,
                code,
            } => {
                write!(out, "{step} {outcome}")?;
                match *code {
                    ExitCode::ZERO => {}
                    ExitCode::Known(code) => write!(out, "; expected exit code {code}")?,
                    ExitCode::Unknown => out.write_str("; its exit code is unknown")?,
                }
                write!(out, " (recipe {recipe})")
            }
            Self::StepFailed {
                step,
                outcome,
                next,
                ..
            } => {
                write!(out, "{step} {}", outcome.failure())?;
                match next {
                    Some(next) => write!(out, "; next is {next}"),
                    None => out.write_str("; no step is left"),
                }
            }
            Self::SidecarEnded { requested, status } => {
                let how = if *requested { "as requested" } else { "by itself" };
                write!(out, "the sidecar ended {how}")?;
                match status {
                    Some(status) => write!(out, ", with {status}"),
                    None => Ok(()),
                }
            }
            Self::GaveUp { reason } => reason.fmt(out),
            Self::Skipped { reason } => reason.fmt(out),
            Self::QuitOnDeletion { sidecars } => write!(
                out,
                "the pod is being deleted and its last app container ended; usher terminates: {}",
                sidecars.join(", ")
            ),
            Self::WouldQuitOnDeletion { recipe, step } => write!(
                out,
                "observe mode: no action; the pod is being deleted and its last app container ended, and enforce \
                 would try {step} first (recipe {recipe})"
            ),
            Self::LeftToKubelet(why) => write!(
                out,
                "the pod is being deleted, and the kubelet ends the sidecar: {why}"
            ),
            Self::InvalidAnnotation(invalid) => write!(
                out,
                "{} {} has the invalid value {:?}, expected {}; it is ignored",
                invalid.place.as_str(),
                invalid.key,
                invalid.value,
                invalid.expected
            ),
            Self::NotHeld(why) => why.fmt(out),
            Self::HoldArmed {
                held_ports,
                deadline,
                without_dns,
                omitted_ports,
                starts,
            } => hold::armed(
                out,
                held_ports,
                *deadline,
                *without_dns,
                *omitted_ports,
                starts,
            ),
            Self::HoldReleased {
                why,
                held,
                adopted,
                tally,
            } => hold::released(out, *why, *held, *adopted, *tally),
            Self::HoldFailed(failed) => failed.fmt(out),
            Self::HoldExtended { deadline } => write!(
                out,
                "the sidecar is not ready after {}; connections stay held, as {} requests",
                duration::setting(*deadline),
                annotation::ON_DEADLINE
            ),
            Self::HoldAdopted { ports } => hold::adopted(out, ports),
            Self::Quarantined(reason) => write!(out, "{reason}; usher leaves the pod alone for a while"),
            Self::WouldHold {
                why,
                held,
                tally,
                starts,
            } => hold::would_hold(out, *why, *held, *tally, starts),
            Self::StartHeld(start) => start::held(out, start),
            Self::StartReleased { why, held } => write!(
                out,
                "{why}; its start was held for {}",
                duration::elapsed(*held)
            ),
            Self::StartMissed => out.write_str(
                "the app started before its start could be held; its connections are held from hold-armed on",
            ),
            Self::StartNotHeld(why) => {
                write!(out, "its start is not held: {why}; its connections are held")
            }
            Self::LingerHeld => {
                out.write_str("the runtime's stop signal waits until the apps have ended")
            }
            Self::LingerReleased { why, held } => out.write_str(&linger::describe(*why, *held)),
            Self::LingerDrained { request } => write!(
                out,
                "{request} was accepted; the sidecar drains inbound connections while it lingers"
            ),
            Self::LingerDrainFailed { request, outcome } => write!(
                out,
                "{request} {}; the sidecar lingers without draining inbound connections",
                outcome.failure()
            ),
            Self::PreStopHeld => {
                out.write_str("the runtime's stop signal waits for the pre-stop time of the app")
            }
            Self::PreStopReleased { why, held } => {
                out.write_str(&linger::describe_app(*why, *held))
            }
            Self::LingerKilled => out.write_str(
                "it did not end on its stop signal within the pod's grace period: SIGKILL",
            ),
            Self::WouldLinger {
                ended_before,
                connections,
            } => {
                write!(
                    out,
                    "it ended {} before the last app of the deleted pod",
                    duration::elapsed(*ended_before)
                )?;
                match connections {
                    Some(1) => out.write_str(
                        ", and 1 connection between containers of the pod was open at its stop signal",
                    )?,
                    Some(open) => write!(
                        out,
                        ", and {open} connections between containers of the pod were open at its stop signal"
                    )?,
                    None => {}
                }
                write!(
                    out,
                    "; with {} its stop signal would have waited",
                    annotation::LINGER
                )
            }
            Self::WouldPreStop { ran, connections } => {
                let plural = if *connections == 1 { "" } else { "s" };
                write!(
                    out,
                    "clients opened {connections} connection{plural} in the {} between its stop signal and its end; \
                     with {} its stop signal would have waited",
                    duration::elapsed(*ran),
                    annotation::PRE_STOP
                )
            }
            Self::LingerUnsupported { reason } | Self::PreStopUnsupported { reason } => {
                write!(out, "its stop signal cannot be held: {reason}")
            }
            Self::OperatorRequest(request) => request.fmt(out),
        }
    }
}
