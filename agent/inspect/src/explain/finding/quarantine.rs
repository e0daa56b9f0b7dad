//! A pod in quarantine: operations in its network namespace do not end in time.

use usher_core::decision::timeline::Detail;

use super::{Finding, Id};
use crate::explain::Case;

const LONGEST_MS: u64 = 3_600_000;

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let decision = case.newest(|detail| matches!(detail, Detail::Quarantined))?;
    let age = case.seen.now_ms.saturating_sub(decision.at_ms);
    if age > LONGEST_MS || case.is_over() {
        return None;
    }
    let problem = "usher leaves the pod's network namespace alone for a while: it holds no connections and sends no \
                   requests to the sidecars";
    let name = format!("{}/{}", case.facts.namespace, case.facts.name);
    let finding = Finding::warning(Id::Quarantined, problem).because_of(Some(decision));
    Some(finding.fix(
        "Find the rules of the pod's packet filter that make system calls slow, and who adds them.",
        format!("nsenter -t PID -n nft list ruleset    # on the node, PID: a process of {name}"),
    ))
}
