//! Diagnosis of one pod: what happened in it, what is wrong between an app and its mesh, and the command that fixes it.
//!
//! [`Case`] holds everything known about the pod: the kubelet's [`Facts`], what the kernel shows and what usher decided
//! ([`Seen`]), and the agent's own plan. Each module has one rule that returns a [`Finding`] with its evidence;
//! [`explain`] adds the pod's timeline. A rule decides on data, never on a text for people, and never guesses: where the
//! node cannot show something, the finding says so.

mod case;
mod change;
mod date;
mod deadline;
mod early_start;
mod exit_code;
mod explanation;
pub mod facts;
mod finding;
mod metadata;
mod native;
pub mod network;
mod own_hold;
mod port_name;
mod probe;
mod quit_endpoint;
mod seen;
mod shell;
mod stays;
mod story;
mod verdict;

pub use self::{
    case::Case,
    change::Change,
    date::{clock, write as write_time},
    explanation::{Explanation, Member, explain, needs_kubelet_version},
    facts::Facts,
    finding::{Evidence, Finding, Id, Severity, span},
    seen::{OnTerm, Process, Seen},
    story::{Moment, Origin},
    verdict::Verdict,
};

/// Returns what is wrong with a pod, the worst first.
pub fn diagnose(case: &Case<'_>) -> Vec<Finding> {
    let rules = [
        exit_code::find,
        own_hold::find,
        early_start::find,
        probe::find,
        quit_endpoint::find,
        shell::find,
        deadline::find,
        metadata::find,
        port_name::find,
        native::find,
        stays::find,
    ];
    let mut findings = rules.into_iter().flat_map(|find| find(case)).collect();
    fold(&mut findings);
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Removes findings that another finding causes, and adds their evidence to that one.
fn fold(findings: &mut Vec<Finding>) {
    for (cause, effect) in [
        (Id::HoldLost, Id::StartedBeforeProxy),
        (Id::QuitEndpointOff, Id::SidecarStays),
        (Id::ShellIsPid1, Id::SidecarStays),
        (Id::ExitCodeSpoils, Id::SidecarStays),
        (Id::ExitCodeSpoils, Id::QuitEndpointOff),
    ] {
        let is_cause = |one: &Finding| one.id == cause && one.severity.is_trouble();
        if !findings.iter().any(is_cause) {
            continue;
        }
        let effects: Vec<Finding> = findings.extract_if(.., |one| one.id == effect).collect();
        if let Some(cause) = findings.iter_mut().find(|one| one.id == cause) {
            let evidence = effects.into_iter().flat_map(|one| one.evidence);
            cause.evidence.extend(evidence);
        }
    }
}

#[cfg(test)]
mod tests;
