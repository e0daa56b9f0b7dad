//! Detects pods that have done their work but do not end.

use serde::{Deserialize, Serialize};

use super::{
    Case, Finding, Id,
    case::names,
    facts::Container,
    finding::end::{stays, unknown_helper},
};

/// A pod with a finished app, and containers that keep it running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// When the last app ended, in milliseconds since 1970.
    pub since_ms: u64,
    pub containers: Vec<String>,
}

pub(super) fn stuck(case: &Case<'_>, findings: &[Finding]) -> Option<Stuck> {
    let (since_ms, containers) = match case.finished_ms() {
        Some(finished) => {
            let containers = case.facts.containers.iter();
            let keeps = |one: &&Container| match case.plan.is_app(&one.name) {
                true => false,
                false if case.plan.ends_by_itself(&one.name) => stays::outlives(case, one),
                false => stays::stays(case, one),
            };
            (finished, names(containers.filter(keeps)))
        }
        // These findings have time limits of their own.
        None if findings
            .iter()
            .any(|finding| finding.id.is_about_a_helper()) =>
        {
            unknown_helper::kept(case)?
        }
        None => return None,
    };
    (!containers.is_empty()).then(|| Stuck {
        since_ms,
        containers: containers.into_iter().map(str::to_owned).collect(),
    })
}

impl Id {
    /// Whether a container that no recipe recognizes keeps the pod.
    const fn is_about_a_helper(self) -> bool {
        matches!(self, Self::UnknownHelper | Self::ShutdownDeadlock)
    }

    /// Whether the finding can explain why a pod does not end.
    pub(super) const fn keeps_the_pod(self) -> bool {
        self.is_about_a_helper()
            || matches!(
                self,
                Self::SidecarStays
                    | Self::QuitEndpointOff
                    | Self::ShellIsPid1
                    | Self::NonzeroExitCode
            )
    }
}
