//! The agent's own process: its log, its metrics, its settings.

use serde::{Deserialize, Serialize};

use crate::{metric::sample::Sample, settings::config::origin::Setting};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    pub filter: String,
    /// The filter at the agent's start.
    pub base: String,
    /// Time until `base` applies again, in milliseconds; None where it applies now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverts_in_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// In the order of the reference.
    pub items: Vec<Sample>,
}

/// The settings in effect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub file: String,
    /// Why the file is not used, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Annotations of the Node, the file, flags and variables.
    pub items: Vec<Setting>,
}
