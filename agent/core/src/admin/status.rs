//! The state of usher on one node.

use serde::{Deserialize, Serialize};

use super::{Pod, PodState};
use crate::{
    hold::Features,
    settings::mode::{Limit, Mode},
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Name of the Node; empty where it is not known.
    #[serde(default)]
    pub node: String,
    /// None where no agent replies.
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
    /// Its pid in its own pid namespace.
    pub pid: u32,
    pub up_ms: u64,
    /// Whether it manages pods.
    pub ready: bool,
    /// What it waits for before it manages pods.
    #[serde(default)]
    pub waits: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Modes {
    pub quit: Mode,
    pub hold: Mode,
    #[serde(default)]
    pub linger: Mode,
    /// The source of each mode: the Node, the configuration or the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quit_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_source: Option<String>,
    /// Why the agent only observes although a capability is set to enforce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Whether the Node was read; otherwise these are the defaults.
    pub known: bool,
    /// How long each mode has been in effect, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quit_for_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_for_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_for_ms: Option<u64>,
}

/// The kubelet's API, from the requests of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    pub listed_ms_ago: Option<u64>,
    /// The error of the last request, if it failed.
    pub error: Option<String>,
}

/// The API server, from the requests of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServer {
    /// The agent has a watch of its Node.
    pub watched: bool,
    /// Time since the last response, in milliseconds.
    pub last_response_ms_ago: Option<u64>,
    /// Why the watch is broken, if it is.
    pub error: Option<String>,
    /// The Namespaces that cannot be read, each with what applies to its pods, and the error.
    #[serde(default)]
    pub unread_namespaces: Vec<String>,
}

/// The CNI plugin on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// Whether the agent has access to the host's directories of CNI plugins.
    pub managed: bool,
    /// Whether the plugin and its entry are in place.
    pub installed: bool,
    /// The file with the entry, or why none has it.
    pub detail: Option<String>,
    pub failed: bool,
}

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

/// Numbers of pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Census {
    pub seen: usize,
    pub finished: usize,
    /// Finished pods with a living sidecar that usher gave up on.
    #[serde(default, skip_serializing_if = "super::pod::is_zero")]
    pub gave_up: usize,
    /// Pods whose connections are held.
    pub held: usize,
    pub held_starts: usize,
    #[serde(default, skip_serializing_if = "super::pod::is_zero")]
    pub held_stops: usize,
    /// Pods that are or were in quarantine because they delay the worker.
    #[serde(default)]
    pub quarantined: usize,
    /// Pods in which usher acts.
    #[serde(default)]
    pub ours: usize,
    /// Pods whose last decision needs attention.
    #[serde(default)]
    pub failed: usize,
}

/// Decisions after which a pod needs attention.
const FAILED: [&str; 4] = ["gave-up", "hold-failed", "hold-extended", "start-missed"];

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub what: String,
    /// The remedy, usually a command.
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
    /// Adds the counts that follow from the pods.
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
        if let (Some(lacks), Mode::Enforce) = (&self.lacks.hold, self.modes.hold) {
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
            let what = match self.plugin.installed {
                true => "is in place, but not as the mode needs it",
                false => "is not in place",
            };
            wrong(format!("the CNI plugin {what}: {detail}"), "usher check");
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
