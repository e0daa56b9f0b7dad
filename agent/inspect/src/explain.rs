//! Diagnosis of one pod: what happened in it, what is wrong between an app and its mesh, and the command that fixes it.
//!
//! [`Case`] holds all data about the pod: the kubelet's [`Facts`], the kernel's data and usher's decisions ([`Seen`]),
//! and the agent's own plan. Each module of `finding` has one rule that returns a [`Finding`] with its evidence;
//! [`explain`] adds the pod's timeline. A rule decides on data, never on display text, and never guesses: a finding
//! names the data that the node does not have.

mod case;
mod certificate;
mod change;
mod date;
mod explanation;
pub mod facts;
mod finding;
pub mod network;
mod seen;
mod stuck;
mod timeline;
mod verdict;

pub use self::{
    case::Case,
    certificate::Certificate,
    change::Change,
    date::{clock, span, write as write_time},
    explanation::{Explanation, Member, explain, needs_kubelet_version},
    facts::Facts,
    finding::{Evidence, Finding, Id, Severity, diagnose},
    seen::{Attempts, OnTerm, Process, Seen},
    stuck::Stuck,
    timeline::{Moment, Origin},
    verdict::Verdict,
};

#[cfg(test)]
mod tests;
