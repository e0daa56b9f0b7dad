//! What usher would do with a pod, and why.

use serde::{Deserialize, Serialize};

/// What usher would do with a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub uid: String,
    /// `namespace/name`.
    pub pod: String,
    /// The mode of this forecast, where it is not the node's mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what_if: Option<String>,
    /// Unknown facts, which the forecast ignores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Invalid annotations and labels, which are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    pub quit: Quit,
    pub hold: Hold,
    /// The hold of its sidecars' stop signals; None where the pod does not request it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Linger>,
}

/// When usher acts.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum Acts {
    Now,
    /// When the event that usher waits for has happened.
    Later,
    #[default]
    No,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quit {
    /// The node's mode, or the requested one.
    pub mode: String,
    pub acts: Acts,
    /// What prevents the termination now.
    pub because: Vec<String>,
    /// Wait after the last app's end, in milliseconds.
    pub delay_ms: u64,
    /// The sidecars, in the order in which they are terminated.
    pub sidecars: Vec<Sidecar>,
    /// Containers that exit after the others have ended.
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
    pub recognized_by: String,
    /// The stage of the pod in which it is terminated: `helper`, `logs`, `mesh`.
    pub stage: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The steps, the first one first.
    pub ladder: Vec<LadderStep>,
    /// How it ends when the pod is deleted and its last app has ended; None where the end of an app finishes the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_deletion: Option<String>,
    /// Steps of the recipe that do not apply to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LadderStep {
    pub step: String,
    /// `drain` or `quit`.
    pub purpose: String,
    /// The exit code that it causes; None for unknown.
    pub exit_code: Option<i32>,
    /// The known time until the sidecar ends, in milliseconds.
    pub takes_ms: u64,
    /// Time until the next step if the sidecar still runs, in milliseconds.
    pub next_after_ms: u64,
    pub allowed: Allowed,
    /// The reason, where the step is forbidden or depends on something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The condition that adds the step to the ladder.
    pub chosen: String,
}

/// Whether a step may be taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allowed {
    /// The step does not harm the pod.
    #[default]
    Yes,
    /// The answer depends on how the apps end.
    Depends,
    /// It would turn a succeeded pod into a failed one, or have no effect.
    No,
}

/// A step that does not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    pub step: String,
    /// The exit code that it would cause; None for unknown.
    pub exit_code: Option<i32>,
    pub why: String,
}

/// The hold of connections and starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The node's mode, or the requested one.
    pub mode: String,
    pub acts: Acts,
    /// What prevents the hold now.
    pub because: Vec<String>,
    pub held_ports: Vec<HeldPort>,
    pub deadline_ms: u64,
    /// What happens at the deadline: `open` or `closed`.
    pub on_deadline: String,
    /// Whether ports are held again while a sidecar restarts.
    pub again: bool,
    /// Users of the sidecars, whose connections are not held.
    pub exempt_uids: Vec<u32>,
    /// Groups of the sidecars, whose connections are not held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exempt_gids: Vec<u32>,
    pub starts: Vec<Start>,
}

/// The hold of sidecars' stop signals until the apps of the deleted pod have ended.
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
    /// The longest hold, in milliseconds; None where it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// The shortest hold where the traffic of an app decides, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_ms: Option<u64>,
    /// The silence of clients that ends the hold after that, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// The request that drains inbound connections of a sidecar while its signal is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Why the signal is not held, or why traffic does not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldPort {
    pub port: u16,
    pub sidecar: String,
    /// Whether DNS queries are held as well.
    pub dns: bool,
    pub released_when: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    pub container: String,
    /// The longest hold, in milliseconds; None where the start is not held.
    pub limit_ms: Option<u64>,
    /// Why it is not held, or the source of the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_matches_the_json_names() {
        for (acts, word) in [(Acts::Now, "now"), (Acts::Later, "later"), (Acts::No, "no")] {
            assert_eq!(acts.into_str(), word);
            assert_eq!(serde_json::to_value(acts).unwrap(), word);
        }
    }
}
