//! What usher would do with a pod, and why.

use serde::{Deserialize, Serialize};

/// What usher would do with a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub uid: String,
    /// `namespace/name`.
    pub pod: String,
    /// The mode that this was made for, where another one was asked about than the node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what_if: Option<String>,
    /// What is not known and was taken for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// What of annotations and labels cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    pub quit: Quit,
    /// Having its connections and starts wait.
    pub hold: Hold,
    /// Holding the stop signals of its sidecars; None where the pod does not request it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Linger>,
}

/// When something is done.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum Acts {
    Now,
    /// When what it waits for has happened.
    Later,
    #[default]
    No,
}

impl Acts {
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// Showing sidecars out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quit {
    /// The node's mode, or the one that was asked about.
    pub mode: String,
    pub acts: Acts,
    /// What keeps usher from it now.
    pub because: Vec<String>,
    /// Wait after the last app's end, in milliseconds.
    pub delay_ms: u64,
    /// The sidecars, in the order in which they are terminated.
    pub sidecars: Vec<Sidecar>,
    /// Containers that end by themselves once the others have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub self_ending: Vec<String>,
}

/// How one sidecar is terminated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sidecar {
    pub container: String,
    pub runs: bool,
    pub recipe: String,
    pub recognised_by: String,
    /// The stage of the pod in which its turn is: `helper`, `logs`, `mesh`.
    pub stage: String,
    /// Its version, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The steps, the first one first.
    pub ladder: Vec<LadderStep>,
    /// What ends it when the pod is deleted and its last app has ended; None where the end of an app finishes the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_deletion: Option<String>,
    /// Steps of the recipe that are not there for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LadderStep {
    pub step: String,
    /// `drain` or `quit`.
    pub purpose: String,
    /// The exit code that it leads to; None for unknown.
    pub exit_code: Option<i32>,
    /// How long the sidecar is known to take to end, in milliseconds.
    pub takes_ms: u64,
    /// When the next step follows where it did not end, in milliseconds.
    pub next_after_ms: u64,
    /// Whether it may be taken.
    pub allowed: Allowed,
    /// Why not, or on what it depends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The condition by which it is there.
    pub chosen: String,
}

/// Whether a step may be taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allowed {
    /// It does the pod no harm.
    #[default]
    Yes,
    /// It depends on how the apps end.
    Depends,
    /// It would turn a succeeded pod into a failed one, or have no effect.
    No,
}

/// A step that is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    pub step: String,
    /// The exit code that it would lead to; None for unknown.
    pub exit_code: Option<i32>,
    pub why: String,
}

/// Having connections and starts wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The node's mode, or the one that was asked about.
    pub mode: String,
    pub acts: Acts,
    /// What keeps usher from it now.
    pub because: Vec<String>,
    pub held_ports: Vec<HeldPort>,
    /// How long at most, in milliseconds.
    pub deadline_ms: u64,
    /// What happens then: `open` or `closed`.
    pub on_deadline: String,
    /// Whether they wait again while a sidecar is started again.
    pub again: bool,
    /// Users of the sidecars: their connections are not held.
    pub passing_uids: Vec<u32>,
    /// Groups of the sidecars, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passing_gids: Vec<u32>,
    pub starts: Vec<Start>,
}

/// Holding the stop signals of sidecars until the apps of the deleted pod have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Linger {
    /// The node's mode, or the requested one.
    pub mode: String,
    pub acts: Acts,
    pub sidecars: Vec<Stop>,
    /// Apps with a pre-stop time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<Stop>,
}

/// The stop signal of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    pub container: String,
    /// How long it waits at most, in milliseconds; None where it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// Where the traffic of an app decides how long it waits: the least time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_ms: Option<u64>,
    /// And the silence of clients that ends it after that, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// The request that drains inbound connections of a sidecar while its signal waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Why it does not wait, or why traffic does not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A port at which connections wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldPort {
    pub port: u16,
    pub sidecar: String,
    /// Whether DNS queries wait there as well.
    pub dns: bool,
    pub opens: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    pub container: String,
    /// How long at most, in milliseconds; None where it does not wait.
    pub limit_ms: Option<u64>,
    /// Why not, or where the limit comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_json() {
        for (acts, word) in [(Acts::Now, "now"), (Acts::Later, "later"), (Acts::No, "no")] {
            assert_eq!(acts.as_str(), word);
            assert_eq!(serde_json::to_value(acts).unwrap(), word);
        }
    }
}
