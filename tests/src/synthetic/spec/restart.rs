//! Restart policies and rules, of pods and of containers.

use serde_json::{Value, json};

/// The policies of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Never,
    OnFailure,
    Always,
}

impl RestartPolicy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "Never",
            Self::OnFailure => "OnFailure",
            Self::Always => "Always",
        }
    }
}

/// An element of a container's `restartPolicyRules`
/// ([KEP-5307](https://github.com/kubernetes/enhancements/issues/5307)).
#[derive(Debug, Clone)]
pub struct RestartRule {
    /// `Restart`, or `RestartAllContainers`
    /// ([KEP-5532](https://github.com/kubernetes/enhancements/issues/5532)).
    pub action: &'static str,
    /// `In` or `NotIn`.
    pub operator: &'static str,
    pub values: Vec<i32>,
}

impl RestartRule {
    /// Restarts the container after one of these codes.
    pub fn restart_after(codes: &[i32]) -> Self {
        Self {
            action: "Restart",
            operator: "In",
            values: codes.to_vec(),
        }
    }

    /// The rule in a container's spec.
    pub fn json(&self) -> Value {
        json!({
            "action": self.action,
            "exitCodes": {"operator": self.operator, "values": self.values},
        })
    }
}
