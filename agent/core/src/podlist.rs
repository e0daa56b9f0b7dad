//! Reads the kubelet's answer to `GET /pods`, a `v1.PodList`.
//!
//! Only the fields that matter are parsed, so that an unusual value elsewhere
//! cannot break anything. A pod that cannot be read is reported and left out;
//! the others count. Nothing in here may panic, whatever the bytes are.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    annotation,
    id::{ContainerId, PodUid},
    pod::{Container, Ended, Pod, RunState, Status},
    policy::{RestartPolicy, RestartRule},
};

/// The answer as a whole is no pod list.
#[derive(Debug, thiserror::Error)]
#[error("the kubelet's answer of {bytes} bytes is not a list of pods")]
pub struct NotAPodList {
    bytes: usize,
    source: serde_json::Error,
}

/// One pod of the list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPod {
    /// It does not have the shape of a pod.
    #[error("pod number {index} of the kubelet's list cannot be read")]
    Shape {
        /// Position in the list, from 0.
        index: usize,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// Its UID is not one.
    #[error("pod {namespace}/{name} of the kubelet's list has a bad UID")]
    Uid {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: crate::id::InvalidId,
    },
}

/// What could be read of an answer.
#[derive(Debug, Default)]
pub struct PodList {
    /// The pods.
    pub pods: Vec<Pod>,
    /// What had to be left out.
    pub bad: Vec<BadPod>,
}

/// Reads an answer of the kubelet.
pub fn parse(body: &[u8]) -> Result<PodList, NotAPodList> {
    #[derive(Deserialize)]
    struct List<'body> {
        // The kubelet writes `null` for a node without pods.
        #[serde(borrow)]
        items: Option<Vec<&'body RawValue>>,
    }
    let list: List<'_> = serde_json::from_slice(body).map_err(|source| NotAPodList {
        bytes: body.len(),
        source,
    })?;
    let mut read = PodList::default();
    for (index, item) in list.items.unwrap_or_default().into_iter().enumerate() {
        let pod = serde_json::from_str::<RawPod>(item.get())
            .map_err(|source| BadPod::Shape { index, source })
            .and_then(RawPod::into_pod);
        match pod {
            Ok(pod) => read.pods.push(pod),
            Err(bad) => read.bad.push(bad),
        }
    }
    Ok(read)
}

#[derive(Deserialize)]
struct RawPod {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    host_network: bool,
    restart_policy: Option<Policy>,
    containers: Vec<RawContainer>,
}

#[derive(Deserialize, Clone, Copy)]
enum Policy {
    Always,
    OnFailure,
    Never,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainer {
    name: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    restart_policy: Option<Policy>,
    restart_policy_rules: Option<Vec<RawRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    exit_codes: Option<ExitCodes>,
}

#[derive(Deserialize)]
struct ExitCodes {
    operator: Operator,
    #[serde(default)]
    values: Vec<i32>,
}

#[derive(Deserialize, PartialEq)]
enum Operator {
    In,
    NotIn,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    #[serde(default)]
    container_statuses: Option<Vec<RawStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    #[serde(default)]
    state: RawState,
    #[serde(default)]
    last_state: RawState,
}

#[derive(Deserialize, Default)]
struct RawState {
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Deserialize)]
struct Terminated {
    #[serde(rename = "exitCode", default)]
    exit_code: i32,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

impl RawPod {
    fn into_pod(self) -> Result<Pod, BadPod> {
        let Metadata {
            namespace,
            name,
            uid,
            annotations,
            deletion_timestamp,
        } = self.metadata;
        let uid = match PodUid::parse(&uid) {
            Ok(uid) => uid,
            Err(source) => {
                return Err(BadPod::Uid {
                    namespace,
                    name,
                    source,
                });
            }
        };
        let mut annotations = annotations.unwrap_or_default();
        annotations.retain(|key, _value| annotation::is_read(key));
        let mut statuses: BTreeMap<String, Status> = self
            .status
            .container_statuses
            .unwrap_or_default()
            .into_iter()
            .map(|status| (status.name.clone(), status.into()))
            .collect();
        let containers = self
            .spec
            .containers
            .into_iter()
            .map(|container| {
                let status = statuses.remove(&container.name);
                container.into_container(status)
            })
            .collect();
        Ok(Pod {
            uid,
            namespace,
            name,
            annotations,
            deleting: deletion_timestamp.is_some(),
            host_network: self.spec.host_network,
            restart_policy: self.spec.restart_policy.map(Into::into).unwrap_or_default(),
            containers,
        })
    }
}

impl RawContainer {
    fn into_container(self, status: Option<Status>) -> Container {
        let rules = self.restart_policy_rules.unwrap_or_default();
        Container {
            name: self.name,
            image: self.image,
            args: self.args.unwrap_or_default(),
            restart_policy: self.restart_policy.map(Into::into),
            restart_rules: rules
                .into_iter()
                .map(|rule| match rule.exit_codes {
                    Some(codes) => RestartRule {
                        within: codes.operator == Operator::In,
                        codes: codes.values,
                    },
                    // A rule about something that this version does not know
                    // may apply to any code: nothing is ended for good by it.
                    None => RestartRule {
                        within: false,
                        codes: Vec::new(),
                    },
                })
                .collect(),
            status,
        }
    }
}

impl From<Policy> for RestartPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Always => Self::Always,
            Policy::OnFailure => Self::OnFailure,
            Policy::Never => Self::Never,
        }
    }
}

impl From<RawStatus> for Status {
    fn from(raw: RawStatus) -> Self {
        let last = raw.last_state.terminated.and_then(|ended| {
            let id = ContainerId::parse_url(&ended.container_id?).ok()?;
            Some(Ended {
                id,
                code: ended.exit_code,
            })
        });
        Self {
            id: raw
                .container_id
                .and_then(|id| ContainerId::parse_url(&id).ok()),
            state: match (raw.state.terminated, raw.state.running) {
                (Some(ended), _) => RunState::Terminated(ended.exit_code),
                (None, Some(_)) => RunState::Running,
                (None, None) => RunState::Waiting,
            },
            last,
        }
    }
}

#[cfg(test)]
mod tests;
