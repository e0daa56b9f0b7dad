//! One thing that is wrong, with what shows it and what to do.

use serde::{Deserialize, Serialize};

/// One thing that is wrong with a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which.
    pub id: Id,
    /// How bad it is.
    pub severity: Severity,
    /// The container that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// What is wrong, in one sentence.
    pub problem: String,
    /// What it follows from.
    pub evidence: Vec<Evidence>,
    /// What to do, in one sentence.
    pub remedy: String,
    /// The same as a command, or as a piece of YAML; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub how: String,
    /// Where to read on.
    pub docs: String,
}

/// What a finding follows from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// A field of the pod, a process, a socket, or an entry of the timeline.
    pub source: String,
    /// What stands there.
    pub says: String,
}

/// How bad a finding is; the worst is the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pod does not do its work.
    Error,
    /// It does, or may, and something is wrong.
    Warning,
    /// Nothing is wrong, and there is a better way.
    Hint,
}

/// What can be found. The names are those of the documentation's sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Id {
    /// An app ran before its proxy was ready.
    StartedBeforeProxy,
    /// Istio was to hold the app, and does not.
    HoldLost,
    /// A port's name says something else than its author meant.
    PortName,
    /// A probe cannot pass the mesh.
    ProbeLost,
    /// A shell keeps the signals from a sidecar.
    #[serde(rename = "shell-is-pid-1")]
    ShellIsPid1,
    /// A sidecar has no endpoint to quit by.
    QuitEndpointOff,
    /// A sidecar's exit code makes the pod a failed one.
    ExitCodeSpoils,
    /// A proxy waits for a cloud that is not there.
    MetadataWait,
    /// Native sidecars are possible.
    NativePossible,
    /// The pod's time is nearly up.
    DeadlineNear,
    /// All apps ended, and a sidecar runs on.
    SidecarStays,
}

impl Id {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::StartedBeforeProxy,
        Self::HoldLost,
        Self::PortName,
        Self::ProbeLost,
        Self::ShellIsPid1,
        Self::QuitEndpointOff,
        Self::ExitCodeSpoils,
        Self::MetadataWait,
        Self::NativePossible,
        Self::DeadlineNear,
        Self::SidecarStays,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StartedBeforeProxy => "started-before-proxy",
            Self::HoldLost => "hold-lost",
            Self::PortName => "port-name",
            Self::ProbeLost => "probe-lost",
            Self::ShellIsPid1 => "shell-is-pid-1",
            Self::QuitEndpointOff => "quit-endpoint-off",
            Self::ExitCodeSpoils => "exit-code-spoils",
            Self::MetadataWait => "metadata-wait",
            Self::NativePossible => "native-possible",
            Self::DeadlineNear => "deadline-near",
            Self::SidecarStays => "sidecar-stays",
        }
    }
}

impl Severity {
    /// Whether something is wrong.
    pub const fn is_trouble(self) -> bool {
        matches!(self, Self::Error | Self::Warning)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
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
            docs: format!("docs/explain.md#{}", id.as_str()),
        }
    }

    #[must_use]
    pub(super) fn about(mut self, container: &str) -> Self {
        self.container = Some(container.to_owned());
        self
    }

    #[must_use]
    pub(super) fn by(mut self, source: impl Into<String>, says: impl Into<String>) -> Self {
        let (source, says) = (source.into(), says.into());
        self.evidence.push(Evidence { source, says });
        self
    }

    #[must_use]
    pub(super) fn mend(mut self, remedy: impl Into<String>, how: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self.how = how.into();
        self
    }
}

/// The beginning of a text of the pod's author, which may be long.
pub(super) fn short(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut letters = text.chars();
    let mut beginning: String = letters.by_ref().take(LONGEST).collect();
    if letters.next().is_some() {
        beginning.push('…');
    }
    beginning
}

/// A time as people say it: `340 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one() {
        for id in Id::ALL {
            assert_eq!(serde_json::to_value(id).unwrap(), id.as_str());
        }
        for (severity, name) in [
            (Severity::Error, "error"),
            (Severity::Warning, "warning"),
            (Severity::Hint, "hint"),
        ] {
            assert_eq!(severity.as_str(), name);
            assert_eq!(serde_json::to_value(severity).unwrap(), name);
        }
        assert!(Severity::Error < Severity::Hint);
    }

    #[test]
    fn texts() {
        assert_eq!(short(&"ä".repeat(130)).chars().count(), 121);
        let spans = [340, 12_400, 185_000, 7_800_000, 200_000_000].map(span);
        assert_eq!(spans, ["340 ms", "12 s", "3 min 5 s", "2 h 10 min", "2 d"]);
    }
}
