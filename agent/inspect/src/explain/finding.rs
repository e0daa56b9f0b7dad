//! Problems of a pod, each with its evidence and its fix. Each submodule detects one kind.

mod certificate;
mod deadline;
mod early_start;
pub(super) mod end;
mod init_container;
mod metadata;
mod native;
pub(super) mod own_hold;
mod port_name;
mod probe;
mod quarantine;
mod readiness;
pub(super) mod sidecar_state;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use usher_core::decision::timeline::Entry;

use self::end::{deletion, exit_code, quit_endpoint, shell, stays, unknown_helper};
use self::sidecar_state::RECENT_MS;
use super::{Case, date::clock};

/// The source of evidence about data that the node does not have.
pub(super) const NOT_VISIBLE: &str = "not visible";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub id: Id,
    pub severity: Severity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// What is wrong, in one sentence.
    pub problem: String,
    pub evidence: Vec<Evidence>,
    /// What to do, in one sentence.
    pub remedy: String,
    /// The same as a command or a piece of YAML. It may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub how: String,
    /// The page and section of the documentation.
    pub docs: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The field of the pod, the process, the socket or the timeline entry.
    pub source: String,
    pub message: String,
}

/// The severity of a finding. The worst sorts first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// The pod does not do its work.
    Error,
    /// The pod may fail to do its work.
    Warning,
    /// Nothing is wrong, but a better setup exists.
    Hint,
}

/// The problems that explain detects. Each name is a heading of the documentation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Id {
    StartedBeforeProxy,
    /// An init container has no network: the proxy that its connections are redirected to starts after it.
    InitBeforeProxy,
    /// Istio is configured to hold the app, but does not hold it.
    HoldLost,
    /// Istio detects another protocol from a port's name than its author meant.
    PortName,
    /// A probe cannot pass the mesh.
    ProbeLost,
    /// A shell does not forward signals to a sidecar.
    #[serde(rename = "shell-is-pid-1")]
    #[strum(serialize = "shell-is-pid-1")]
    ShellIsPid1,
    QuitEndpointOff,
    /// A sidecar's exit code fails the pod.
    NonzeroExitCode,
    MetadataWait,
    NativePossible,
    DeadlineNear,
    /// A sidecar does not start, or restarts again and again.
    SidecarNotRunning,
    /// A sidecar runs and does not become ready.
    SidecarNotReady,
    /// A sidecar ended before its apps and does not restart.
    SidecarEnded,
    SidecarStays,
    /// An app ended, and another container that no recipe recognizes keeps the pod running.
    UnknownHelper,
    /// A container and a sidecar wait for each other to end.
    ShutdownDeadlock,
    /// The certificate of a proxy has expired, or its renewal is overdue.
    CertificateExpires,
    /// usher has suspended work in the pod's network namespace.
    Quarantined,
    /// A hold ended without a reply to readiness requests.
    ReadinessUnknown,
    /// The kubelet ends the sidecars of a deleted pod.
    LeftToKubelet,
}

impl Id {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Severity {
    /// Whether something is wrong.
    pub const fn is_trouble(self) -> bool {
        matches!(self, Self::Error | Self::Warning)
    }

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Finding {
    pub(super) fn new(id: Id, severity: Severity, problem: impl Into<String>) -> Self {
        Self {
            id,
            severity,
            container: None,
            problem: problem.into(),
            evidence: Vec::new(),
            remedy: String::new(),
            how: String::new(),
            docs: format!("usher help {}", id.as_str()),
        }
    }

    #[must_use]
    pub(super) fn about(mut self, container: &str) -> Self {
        self.container = Some(container.to_owned());
        self
    }

    pub(super) fn error(id: Id, problem: impl Into<String>) -> Self {
        Self::new(id, Severity::Error, problem)
    }

    pub(super) fn warning(id: Id, problem: impl Into<String>) -> Self {
        Self::new(id, Severity::Warning, problem)
    }

    #[must_use]
    pub(super) fn because(mut self, source: impl Into<String>, message: impl Into<String>) -> Self {
        let (source, message) = (source.into(), message.into());
        self.evidence.push(Evidence { source, message });
        self
    }

    /// Adds evidence that may be absent.
    #[must_use]
    pub(super) fn because_any<T: Into<String>>(self, evidence: Option<(String, T)>) -> Self {
        match evidence {
            Some((source, message)) => self.because(source, message),
            None => self,
        }
    }

    #[must_use]
    pub(super) fn because_of(self, entry: Option<&Entry>) -> Self {
        self.because_any(entry.map(|entry| {
            let source = format!("timeline {} {}", clock(entry.at_ms), entry.detail.name());
            (source, &entry.reason)
        }))
    }

    #[must_use]
    pub(super) fn fix(mut self, remedy: impl Into<String>, how: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self.how = how.into();
        self
    }
}

/// Whether every app runs, is ready, and has done so for a while: a problem of its start has no effect any more.
fn has_started_well(case: &Case<'_>) -> bool {
    let is_old = |at: u64| case.seen.now_ms.saturating_sub(at) > RECENT_MS;
    let mut apps = case.apps().peekable();
    let any = apps.peek().is_some();
    any && apps.all(|app| app.runs() && app.status.ready && app.started_ms().is_some_and(is_old))
}

/// The start of a text of the pod's author, which may be long.
pub(super) fn short(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The problems of a pod, the worst first.
pub fn diagnose(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = [
        exit_code::find(case),
        Vec::from_iter(own_hold::find(case)),
        Vec::from_iter(early_start::find(case)),
        Vec::from_iter(init_container::find(case)),
        sidecar_state::find(case),
        Vec::from_iter(unknown_helper::find(case)),
        probe::find(case),
        quit_endpoint::find(case),
        shell::find(case),
        Vec::from_iter(deadline::find(case)),
        Vec::from_iter(metadata::find(case)),
        port_name::find(case),
        Vec::from_iter(native::find(case)),
        Vec::from_iter(stays::find(case)),
        Vec::from_iter(certificate::find(case)),
        Vec::from_iter(quarantine::find(case)),
        Vec::from_iter(readiness::find(case)),
        Vec::from_iter(deletion::find(case)),
    ]
    .concat();
    fold(case, &mut findings);
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Removes findings that another finding causes, and adds their evidence to that one.
fn fold(case: &Case<'_>, findings: &mut Vec<Finding>) {
    for (cause, effect) in [
        (Id::HoldLost, Id::StartedBeforeProxy),
        (Id::QuitEndpointOff, Id::SidecarStays),
        (Id::ShellIsPid1, Id::SidecarStays),
        (Id::NonzeroExitCode, Id::SidecarStays),
        (Id::NonzeroExitCode, Id::QuitEndpointOff),
        (Id::NonzeroExitCode, Id::SidecarEnded),
        (Id::SidecarNotRunning, Id::StartedBeforeProxy),
        (Id::SidecarEnded, Id::StartedBeforeProxy),
    ] {
        let is_cause = |one: &Finding, of: &Finding| one.id == cause && causes(case, one, of);
        let all = findings.clone();
        let is_effect =
            |one: &mut Finding| one.id == effect && all.iter().any(|other| is_cause(other, one));
        let effects: Vec<Finding> = findings.extract_if(.., is_effect).collect();
        for one in effects {
            let cause = findings.iter_mut().find(|other| is_cause(other, &one));
            if let Some(cause) = cause {
                cause.evidence.extend(one.evidence);
            }
        }
    }
}

/// Whether a finding is about the containers of its effect, and severe enough to cause it.
fn causes(case: &Case<'_>, cause: &Finding, effect: &Finding) -> bool {
    match effect.id {
        // An app starts too early because of another container.
        Id::StartedBeforeProxy => cause.severity.is_trouble(),
        Id::SidecarStays => {
            let name = cause.container.as_deref();
            cause.severity == Severity::Error
                && name.is_some_and(|name| stays::staying(case).contains(&name))
        }
        _ => cause.severity.is_trouble() && cause.container == effect.container,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_text_have_the_same_names() {
        for id in Id::VARIANTS {
            assert_eq!(serde_json::to_value(id).unwrap(), id.as_str());
        }
        for severity in [Severity::Error, Severity::Warning, Severity::Hint] {
            assert_eq!(serde_json::to_value(severity).unwrap(), severity.as_str());
        }
        assert!(Severity::Error < Severity::Hint);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(short(&"ä".repeat(130)).chars().count(), 121);
        assert_eq!(short(&"ä".repeat(120)).chars().count(), 120);
    }
}
