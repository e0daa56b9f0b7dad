//! What goes wrong between an app and its mesh, and what became of a pod, in plain words.
//!
//! [`Case`] has everything that is known of one pod: what the kubelet says ([`Facts`]), what the node's kernel shows and
//! usher decided ([`Seen`]), and the same plan that the agent makes. One room for each [`Finding`] says whether it applies
//! and by which evidence; [`explain`] puts them beside the pod's timeline. A finding names what is so, and never
//! guesses: where something cannot be seen from the node its text says that.

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
    explanation::{Explanation, Member, asks_version, explain},
    facts::Facts,
    finding::{Evidence, Finding, Id, Severity, span},
    seen::{OnTerm, Process, Seen, Socket},
    story::{Moment, Teller},
    verdict::Verdict,
};

/// What is wrong with a pod, the worst first.
pub fn diagnose(case: &Case<'_>) -> Vec<Finding> {
    let rooms = [
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
    ];
    let mut findings: Vec<Finding> = rooms.into_iter().flat_map(|find| find(case)).collect();
    findings.extend(stays::find(case));
    fold(&mut findings);
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Leaves out what another finding is the cause of, and gives its evidence to that one.
fn fold(findings: &mut Vec<Finding>) {
    for (cause, effect) in [
        (Id::HoldLost, Id::StartedBeforeProxy),
        (Id::QuitEndpointOff, Id::SidecarStays),
        (Id::ShellIsPid1, Id::SidecarStays),
        (Id::ExitCodeSpoils, Id::SidecarStays),
        (Id::ExitCodeSpoils, Id::QuitEndpointOff),
    ] {
        let is_there = |finding: &Finding| finding.id == cause && finding.severity.is_trouble();
        if !findings.iter().any(is_there) {
            continue;
        }
        let (effects, mut kept): (Vec<_>, Vec<_>) = std::mem::take(findings)
            .into_iter()
            .partition(|finding| finding.id == effect);
        if let Some(cause) = kept.iter_mut().find(|finding| finding.id == cause) {
            cause
                .evidence
                .extend(effects.into_iter().flat_map(|effect| effect.evidence));
        }
        *findings = kept;
    }
}

#[cfg(test)]
mod tests;
