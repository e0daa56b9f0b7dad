//! Reads the kubelet's answer to `GET /pods`, a `v1.PodList`.
//!
//! Only the fields that matter are parsed, so that an unusual value elsewhere
//! cannot break anything. A pod that cannot be read is reported and left out;
//! the others count. Nothing in here may panic, whatever the bytes are.

mod container;
mod probe;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::container::{Policy, RawContainer, RawSecurity, RawStatus};
use crate::{
    base::id::PodUid,
    pod::{
        restart_policy::RestartPolicy,
        spec::{Container, Pod},
    },
    recipe::Reads,
    settings::annotation,
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
    #[error("pod {namespace}/{name} of the kubelet's list has a bad UID")]
    Uid {
        namespace: String,
        name: String,
        /// What is wrong with it.
        source: crate::base::id::InvalidId,
    },
}

/// What could be read of an answer.
#[derive(Debug, Default)]
pub struct PodList {
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
        let is_read =
            |key: &String| key.starts_with(annotation::PREFIX) || reads.annotations.contains(key);
        let annotations = annotations.unwrap_or_default().into_iter();
        let annotations = annotations.filter(|(key, _value)| is_read(key)).collect();
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
        let mut containers = read(self.spec.containers, container_statuses);
        // They stand where the longer ones that were read did; a pod is kept.
        containers.shrink_to_fit();
        let init = self.spec.init_containers.unwrap_or_default();
        let init = read(init, init_container_statuses);
        let is_native = |init: &&Container| init.restart_policy == Some(RestartPolicy::Always);
        let (native, before): (Vec<_>, Vec<_>) = init.iter().partition(is_native);
        let name_of = |init: &Container| init.name.clone();
        let native_sidecars = native.into_iter().map(name_of).collect();
        let init_containers = before.into_iter().map(name_of).collect();
        let restarts = |init: &Container| init.restart_rules.iter().any(|rule| rule.whole_pod);
        let mut init_restarters: Vec<_> = init.into_iter().filter(restarts).collect();
        init_restarters.shrink_to_fit();
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
            init_restarters,
            restart_policy: self.spec.restart_policy.map(Into::into).unwrap_or_default(),
            containers,
        })
    }
}

#[cfg(test)]
mod tests;
