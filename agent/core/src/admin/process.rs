//! The agent's own process: its log, its metrics, its settings.

use serde::{Deserialize, Serialize};

use crate::{metric::sample::Sample, settings::config::origin::Setting};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// The filter that counts now.
    pub filter: String,
    /// The one that the agent was started with.
    pub base: String,
    /// In how many milliseconds that one counts again; None where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverts_in_ms: Option<u64>,
}

/// What the agent counts and measures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// In the order of the reference.
    pub items: Vec<Sample>,
}

/// What counts, value by value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub file: String,
    /// Why it does not count, where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Annotations of the Node, the file, flags and variables.
    pub items: Vec<Setting>,
}
