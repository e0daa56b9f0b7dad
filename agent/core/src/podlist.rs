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
    image,
    pod::{Container, Ended, Pod, RunState, Status},
    policy::{RestartPolicy, RestartRule},
    recipe::Reads,
};

/// The action of a rule that starts the whole pod again
/// ([KEP-5532](https://github.com/kubernetes/enhancements/issues/5532)).
const RESTART_ALL: &str = "RestartAllContainers";

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

/// Reads an answer of the kubelet; of annotations and variables only what
/// `reads` names is kept.
pub fn parse(body: &[u8], reads: &Reads) -> Result<PodList, NotAPodList> {
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
            .and_then(|pod| pod.into_pod(reads));
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
    runtime_class_name: Option<String>,
    containers: Vec<RawContainer>,
    #[serde(default)]
    init_containers: Option<Vec<RawContainer>>,
    security_context: Option<RawSecurity>,
}

/// Ids as Kubernetes has them, which may be larger than any that exists.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct RawSecurity {
    run_as_user: Option<i64>,
    run_as_group: Option<i64>,
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
    command: Option<Vec<String>>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<RawVariable>>,
    security_context: Option<RawSecurity>,
    restart_policy: Option<Policy>,
    restart_policy_rules: Option<Vec<RawRule>>,
}

#[derive(Deserialize)]
struct RawVariable {
    name: String,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    #[serde(default)]
    action: String,
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
    phase: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    container_statuses: Option<Vec<RawStatus>>,
    #[serde(default)]
    init_container_statuses: Option<Vec<RawStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    #[serde(rename = "imageID", default)]
    image_id: String,
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

impl PodStatus {
    /// Why the pod has ended as a whole, if it has.
    fn terminal(&self) -> Option<String> {
        let ended = matches!(self.phase.as_str(), "Succeeded" | "Failed");
        let reason = if self.reason.is_empty() {
            &self.phase
        } else {
            &self.reason
        };
        ended.then(|| reason.chars().take(64).collect())
    }
}

impl RawPod {
    fn into_pod(self, reads: &Reads) -> Result<Pod, BadPod> {
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
        annotations.retain(|key, _value| {
            key.starts_with(annotation::PREFIX) || reads.annotations.contains(key)
        });
        let terminal = self.status.terminal();
        let security = self.spec.security_context;
        let read = |raw: Vec<RawContainer>, statuses: Option<Vec<RawStatus>>| {
            let statuses = statuses.unwrap_or_default().into_iter();
            let mut statuses: BTreeMap<String, RawStatus> = statuses
                .map(|status| (status.name.clone(), status))
                .collect();
            raw.into_iter()
                .map(|container| {
                    let status = statuses.remove(&container.name);
                    container.into_container(status, security, reads)
                })
                .collect::<Vec<Container>>()
        };
        let PodStatus {
            container_statuses,
            init_container_statuses,
            ..
        } = self.status;
        let containers = read(self.spec.containers, container_statuses);
        let init = self.spec.init_containers.unwrap_or_default();
        let init = read(init, init_container_statuses);
        let is_native = |init: &&Container| init.restart_policy == Some(RestartPolicy::Always);
        let (native, before): (Vec<_>, Vec<_>) = init.iter().partition(is_native);
        let name_of = |init: &Container| init.name.clone();
        let native_sidecars = native.into_iter().map(name_of).collect();
        let init_containers = before.into_iter().map(name_of).collect();
        let restarts = |init: &Container| init.restart_rules.iter().any(|rule| rule.whole_pod);
        Ok(Pod {
            uid,
            namespace,
            name,
            annotations,
            deleting: deletion_timestamp.is_some(),
            host_network: self.spec.host_network,
            runtime_class: self.spec.runtime_class_name,
            terminal,
            native_sidecars,
            init_containers,
            init_restarters: init.into_iter().filter(restarts).collect(),
            restart_policy: self.spec.restart_policy.map(Into::into).unwrap_or_default(),
            containers,
        })
    }
}

impl RawContainer {
    fn into_container(
        self,
        status: Option<RawStatus>,
        pod: Option<RawSecurity>,
        reads: &Reads,
    ) -> Container {
        let id = |read: fn(RawSecurity) -> Option<i64>| {
            let own = self.security_context.and_then(read);
            u32::try_from(own.or_else(|| pod.and_then(read))?).ok()
        };
        let user = id(|security| security.run_as_user);
        let group = id(|security| security.run_as_group);
        let rules = self.restart_policy_rules.unwrap_or_default();
        let mut words = self.command.unwrap_or_default();
        words.extend(self.args.unwrap_or_default());
        let env = self.env.unwrap_or_default().into_iter();
        let env = env
            .filter(|variable| reads.env.contains(&variable.name))
            .filter_map(|variable| Some((variable.name, variable.value?)));
        // Only an image whose tag tells no version is told apart by it.
        let untold = image::version(&self.image).is_none();
        let image_id = status.as_ref().filter(|_| untold);
        let image_id = image_id.map(|status| status.image_id.clone());
        Container {
            name: self.name,
            image: self.image,
            image_id: image_id.filter(|id| !id.is_empty()),
            words,
            env: env.collect(),
            user,
            group,
            restart_policy: self.restart_policy.map(Into::into),
            restart_rules: rules
                .into_iter()
                .map(|rule| {
                    let whole_pod = rule.action == RESTART_ALL;
                    match rule.exit_codes {
                        Some(codes) => RestartRule {
                            within: codes.operator == Operator::In,
                            codes: codes.values,
                            whole_pod,
                        },
                        // A rule about something that this version does not
                        // know may apply to any code: nothing is ended for
                        // good by it.
                        None => RestartRule {
                            within: false,
                            codes: Vec::new(),
                            whole_pod,
                        },
                    }
                })
                .collect(),
            status: status.map(Into::into),
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
