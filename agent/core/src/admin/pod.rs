//! One pod, as the agent reports it.

use serde::{Deserialize, Serialize};

use crate::worker::QuarantineReason;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    pub uid: String,
    /// Its namespace; None before the kubelet lists it.
    pub namespace: Option<String>,
    /// Its name; None before the kubelet lists it.
    pub name: Option<String>,
    pub state: PodState,
    /// The current decision, such as `waiting`.
    pub decision: Option<String>,
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_ports: Vec<u16>,
    #[serde(default)]
    pub held_starts: usize,
    /// Containers whose stop signals wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_stops: usize,
    #[serde(default)]
    pub host_network: bool,
    #[serde(default)]
    pub deleting: bool,
    /// Why usher skips the pod, or skipped it for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<QuarantineReason>,
    /// Init containers, native sidecars and regular containers in the order of the spec; then those without a name.
    pub containers: Vec<Container>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "kebab-case")]
pub enum PodState {
    /// The kubelet has not listed the pod, or its Namespace has not been read.
    Unknown,
    NotApplicable,
    Held,
    /// Its apps run, or will run.
    Running,
    /// All its apps have finished; sidecars still run.
    Finished,
    /// Its sidecars have ended as well.
    Done,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(super) const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// None where it is not known.
    pub name: Option<String>,
    /// The runtime's id of its newest run.
    pub id: Option<String>,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// The image, as in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The state of its newest run.
    pub state: ContainerState,
    /// The exit code of its newest run, where it ended and the code is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Its init process, in the host's pid namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    App,
    /// A recipe or an annotation declares it a sidecar.
    Sidecar,
    /// It exits after the others have ended.
    #[serde(rename = "self-ending")]
    SelfEnding,
    /// An init container with `restartPolicy: Always`, which the kubelet terminates.
    Native,
    /// An init container that ends before the regular ones start.
    Init,
    /// The sandbox, or an unknown container.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    /// No run of it was observed.
    Unseen,
    /// It has a cgroup and no init process yet.
    Starting,
    Running,
    Exited,
}

impl Pod {
    /// `namespace/name`, or the UID.
    pub fn display_name(&self) -> String {
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => self.uid.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_matches_the_json_names() {
        for (state, word) in [
            (PodState::Unknown, "unknown"),
            (PodState::NotApplicable, "not-applicable"),
            (PodState::Held, "held"),
            (PodState::Running, "running"),
            (PodState::Finished, "finished"),
            (PodState::Done, "done"),
        ] {
            assert_eq!(state.into_str(), word);
            assert_eq!(serde_json::to_value(state).unwrap(), word);
        }
        for (role, word) in [
            (Role::App, "app"),
            (Role::Sidecar, "sidecar"),
            (Role::SelfEnding, "self-ending"),
            (Role::Native, "native"),
            (Role::Init, "init"),
            (Role::Other, "other"),
        ] {
            assert_eq!(role.into_str(), word);
            assert_eq!(serde_json::to_value(role).unwrap(), word);
        }
        for (state, word) in [
            (ContainerState::Unseen, "unseen"),
            (ContainerState::Starting, "starting"),
            (ContainerState::Running, "running"),
            (ContainerState::Exited, "exited"),
        ] {
            assert_eq!(state.into_str(), word);
            assert_eq!(serde_json::to_value(state).unwrap(), word);
        }
    }

    #[test]
    fn pod_is_displayed_by_name_or_uid() {
        for (namespace, name, called) in [
            (Some("shop"), Some("web"), "shop/web"),
            (Some("shop"), None, "u-1"),
            (None, Some("web"), "u-1"),
            (None, None, "u-1"),
        ] {
            let pod = Pod {
                uid: "u-1".to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                state: PodState::Unknown,
                decision: None,
                reason: None,
                held_ports: Vec::new(),
                held_starts: 0,
                held_stops: 0,
                host_network: false,
                deleting: false,
                quarantine: None,
                containers: Vec::new(),
            };
            assert_eq!(pod.display_name(), called);
        }
    }
}
