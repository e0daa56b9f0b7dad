//! The reasons for what happens to the sidecars of a finished pod.

use std::fmt;

use crate::{decision::GaveUp, quit::outcome::Outcome, recipe::ExitCode, settings::annotation};

impl fmt::Display for GaveUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StillRuns => out.write_str(
                "every step was tried and the sidecar still runs; delete the pod, or end the sidecar manually",
            ),
            Self::ComesBack => out.write_str(
                "the sidecar restarts each time that it ends; check for a liveness probe, an exit code other than 0, \
                 or restartPolicy Always on it",
            ),
            Self::WouldFailPod {
                step,
                code: ExitCode::Unknown,
                advice,
            } => write!(
                out,
                "{step} ends the sidecar with an unknown exit code, and another code than 0 would turn a succeeded pod \
                 into a failed one, which a Job retries; {}, or allow it by annotation {}",
                remedy_of_unknown(advice),
                annotation::ALLOW_POD_FAILURE
            ),
            Self::WouldRestart {
                step,
                code: ExitCode::Unknown,
                advice,
            } => write!(
                out,
                "{step} ends the sidecar with an unknown exit code, and it would restart after another code than 0; \
                 {}, or allow it by annotation {}",
                remedy_of_unknown(advice),
                annotation::ALLOW_POD_FAILURE
            ),
            Self::WouldFailPod { step, code, advice } => write!(
                out,
                "{step} would end the sidecar with exit code {code} and turn a succeeded pod into a failed one, which \
                 a Job retries; {}, or allow it by annotation {}",
                remedy(advice),
                annotation::ALLOW_POD_FAILURE
            ),
            Self::WouldRestart { step, code, advice } => write!(
                out,
                "{step} would end the sidecar with exit code {code}, after which it restarts; {}",
                remedy(advice)
            ),
        }
    }
}

fn remedy_of_unknown(advice: &str) -> String {
    match advice {
        "" => format!(
            "if that exit code is 0, name the container and the step in annotation {}",
            annotation::SIDECARS
        ),
        advice => advice.to_owned(),
    }
}

fn remedy(advice: &str) -> &str {
    match advice {
        "" => "let it end with exit code 0",
        advice => advice,
    }
}

impl Outcome {
    /// The outcome of a step after which the sidecar still runs.
    pub(crate) fn failure(&self) -> String {
        match self {
            Self::Accepted | Self::NoReply | Self::Signalled => {
                format!("{self}, but the sidecar still runs")
            }
            _ => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::step::{Signal, Step};

    #[test]
    fn a_harmful_step_is_reported_with_its_remedy() {
        let step = || Step::signal(Signal::Term);
        let would_fail = |advice: &str| GaveUp::WouldFailPod {
            step: step(),
            code: ExitCode::Known(143),
            advice: advice.to_owned(),
        };
        let restart = |advice: &str| GaveUp::WouldRestart {
            step: step(),
            code: ExitCode::Known(143),
            advice: advice.to_owned(),
        };
        let text = "SIGTERM would end the sidecar with exit code 143 and turn a succeeded pod into a failed one, which a \
                      Job retries; ";
        let or = ", or allow it by annotation usher.dev/allow-pod-failure";
        let restarts =
            "SIGTERM would end the sidecar with exit code 143, after which it restarts; ";
        let default = "let it end with exit code 0";
        for (reason, expected) in [
            (would_fail(""), format!("{text}{default}{or}")),
            (
                would_fail("give it a flag"),
                format!("{text}give it a flag{or}"),
            ),
            (restart(""), format!("{restarts}{default}")),
            (
                restart("give it a flag"),
                format!("{restarts}give it a flag"),
            ),
        ] {
            assert_eq!(reason.to_string(), expected);
        }
    }
}
