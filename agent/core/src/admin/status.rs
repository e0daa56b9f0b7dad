//! The state of usher on one node.

use serde::{Deserialize, Serialize};

use super::{Pod, PodState};
use crate::{hold::Features, settings::mode::Limit};

/// The state of usher on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Name of the Node; empty where it is not known.
    #[serde(default)]
    pub node: String,
    /// The agent; None where none answers.
    pub agent: Option<Agent>,
    pub modes: Modes,
    pub lacks: Lacks,
    pub pods: Census,
    #[serde(default)]
    pub kubelet: Kubelet,
    #[serde(default)]
    pub api_server: ApiServer,
    #[serde(default)]
    pub plugin: Plugin,
    #[serde(default)]
    pub configuration: Configuration,
    /// What is wrong, the worst first.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    pub version: String,
    /// Its process, in the pid namespace that it runs in.
    pub pid: u32,
    /// How long it has run, in milliseconds.
    pub up_ms: u64,
    /// Whether it takes care of pods.
    pub ready: bool,
    /// What it still waits for.
    #[serde(default)]
    pub waits: Vec<String>,
}

/// The mode of each capability.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Modes {
    /// `off`, `observe` or `enforce`.
    pub quit: String,
    pub hold: String,
    #[serde(default)]
    pub linger: String,
    /// What sets each: the Node, the configuration or the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quit_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_source: Option<String>,
    /// Why the agent only observes although one of them is set to enforce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Whether the Node was read; otherwise these are the defaults.
    pub known: bool,
    /// How long each has been so, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quit_for_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_for_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_for_ms: Option<u64>,
}

/// The kubelet, as the agent finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    /// How long ago it gave its pods, in milliseconds.
    pub listed_ms_ago: Option<u64>,
    /// What went wrong with the last request, where something did.
    pub error: Option<String>,
}

/// The API server, as the agent finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServer {
    /// The agent watches its Node there.
    pub watched: bool,
    /// How long ago something came from there, in milliseconds.
    pub heard_ms_ago: Option<u64>,
    /// Why the watch is broken, where it is.
    pub error: Option<String>,
    /// The Namespaces that cannot be read, each with what applies to its pods, and the error.
    #[serde(default)]
    pub unread_namespaces: Vec<String>,
}

/// The CNI plugin on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// Whether the agent has the host's directories of CNI plugins.
    pub managed: bool,
    /// Whether the plugin and its entry are in place.
    pub installed: bool,
    /// The file that has the entry, or why there is none.
    pub detail: Option<String>,
    pub failed: bool,
}

/// The configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    pub file: String,
    /// Why it is not used.
    pub error: Option<String>,
}

/// What the kernel lacks for a capability; None where it lacks nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lacks {
    pub hold: Option<String>,
    pub dns: Option<String>,
    pub start: Option<String>,
}

/// How many pods there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Census {
    pub seen: usize,
    pub finished: usize,
    /// Those of them whose connections wait.
    pub held: usize,
    pub held_starts: usize,
    #[serde(default, skip_serializing_if = "super::pod::is_zero")]
    pub held_stops: usize,
    /// Those that usher leaves alone because they trouble its worker, or did.
    #[serde(default)]
    pub quarantined: usize,
    /// Those that usher has something to do with.
    #[serde(default)]
    pub ours: usize,
    /// Those for which something failed.
    #[serde(default)]
    pub failed: usize,
}

/// Decisions after which a pod needs attention.
const FAILED: [&str; 4] = [
    "gave-up",
    "hold-failed",
    "hold-stays-closed",
    "start-missed",
];

/// Something that is wrong, and what helps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub what: String,
    /// What to do: a command, as a rule.
    pub next: String,
}

impl From<&Features> for Lacks {
    fn from(features: &Features) -> Self {
        let dns = "the kernel has neither nft queue nor NFQUEUE";
        Self {
            hold: features.hold.clone().err(),
            dns: features.dns.is_none().then(|| dns.to_owned()),
            start: features.start.clone().err(),
        }
    }
}

impl Census {
    /// Adds the counts that only the pods have.
    #[must_use]
    pub fn with(mut self, pods: &[Pod]) -> Self {
        let failed = |pod: &&Pod| {
            pod.decision
                .as_deref()
                .is_some_and(|kind| FAILED.contains(&kind))
        };
        self.ours = pods
            .iter()
            .filter(|pod| !matches!(pod.state, PodState::NotApplicable | PodState::Unknown))
            .count();
        self.failed = pods.iter().filter(failed).count();
        self
    }
}

impl Status {
    /// The problems, the worst first, each with its remedy.
    pub fn judge(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |what: String, next: &str| {
            let next = next.to_owned();
            problems.push(Problem { what, next });
        };
        match &self.agent {
            None => wrong(
                "no agent runs on this node".to_owned(),
                "kubectl get pods -n usher -o wide",
            ),
            Some(agent) if !agent.ready => {
                wrong(
                    format!("the agent is not ready: {}", agent.waits.join("; ")),
                    "usher check",
                );
            }
            Some(_) => {}
        }
        if let Some(error) = &self.configuration.error {
            wrong(
                format!("the configuration is not used: {error}"),
                "usher check",
            );
        }
        if let Some(error) = &self.kubelet.error {
            wrong(
                format!("the kubelet does not list its pods: {error}"),
                "usher check",
            );
        }
        if let Some(error) = &self.api_server.error {
            wrong(
                format!("the watch on the Node is broken: {error}"),
                "usher check",
            );
        }
        for namespace in &self.api_server.unread_namespaces {
            wrong(
                format!("cannot read the Namespace {namespace}"),
                "kubectl auth can-i get namespaces --as system:serviceaccount:usher:usher",
            );
        }
        if let (Some(lacks), "enforce") = (&self.lacks.hold, self.modes.hold.as_str()) {
            wrong(
                format!("nothing can be held here: {lacks}"),
                "usher check --pre",
            );
        }
        if self.plugin.failed {
            let detail = self
                .plugin
                .detail
                .as_deref()
                .unwrap_or("the reason is not known");
            wrong(
                format!("the CNI plugin is not in place: {detail}"),
                "usher check",
            );
        }
        if self.pods.quarantined > 0 {
            wrong(
                format!(
                    "{} pods were left alone for what they do to their network",
                    self.pods.quarantined
                ),
                "usher pods -o wide, then usher explain POD",
            );
        }
        if self.pods.failed > 0 {
            wrong(
                format!("something failed for {} pods", self.pods.failed),
                "usher pods, then usher explain POD",
            );
        }
        problems
    }
}

#[cfg(test)]
mod tests;
