//! One pod of the list, reduced to what decisions need.

use std::{borrow::Cow, collections::BTreeMap, fmt, net::IpAddr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    SkippedPod,
    container::{RawContainer, RawSecurity, RawStatus},
    reduced,
    resources::{RawRequests, RawResources},
};
use crate::{
    base::id::PodUid,
    pod::{
        requests::{Init, Requests},
        restart_policy::RestartPolicy,
        spec::{Container, DEFAULT_GRACE, Pod},
    },
    recipe::Reads,
};

/// Addresses of a pod that are read: one of each family, and some more.
const MOST_ADDRESSES: usize = 8;

#[derive(Deserialize)]
pub(super) struct RawPod<'list> {
    #[serde(borrow)]
    metadata: Metadata<'list>,
    #[serde(borrow)]
    spec: Spec<'list>,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'list> {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
    #[serde(borrow)]
    annotations: Option<&'list RawValue>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'list> {
    #[serde(default)]
    host_network: bool,
    termination_grace_period_seconds: Option<i64>,
    restart_policy: Option<RestartPolicy>,
    runtime_class_name: Option<String>,
    #[serde(borrow)]
    containers: Vec<RawContainer<'list>>,
    #[serde(borrow, default)]
    init_containers: Option<Vec<RawContainer<'list>>>,
    security_context: Option<RawSecurity>,
    #[serde(borrow)]
    resources: Option<RawResources<'list>>,
    #[serde(borrow)]
    overhead: Option<RawRequests<'list>>,
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
    #[serde(rename = "podIPs", default)]
    addresses: Option<Vec<Address>>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(default)]
    ip: String,
}

impl PodStatus {
    /// Why the pod has a terminal phase, if it has one.
    fn terminal(&self) -> Option<String> {
        let ended = is_terminal(&self.phase);
        let reason = if self.reason.is_empty() {
            &self.phase
        } else {
            &self.reason
        };
        ended.then(|| reason.chars().take(64).collect())
    }
}

impl RawPod<'_> {
    /// The addresses in the status.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let addresses = self.status.addresses.iter().flatten();
        addresses
            .filter_map(|address| address.ip.parse().ok())
            .take(MOST_ADDRESSES)
            .collect()
    }

    /// `index` is the position in the list.
    pub(super) fn into_pod(self, index: usize, reads: &Reads) -> Result<Pod, SkippedPod> {
        let Metadata {
            namespace,
            name,
            uid,
            annotations,
            deletion_timestamp,
            deletion_grace_period_seconds,
        } = self.metadata;
        let uid = match PodUid::parse(&uid) {
            Ok(uid) => uid,
            Err(source) => {
                return Err(SkippedPod::Uid {
                    namespace,
                    name,
                    source,
                });
            }
        };
        let annotations = annotations.map(|annotations| reduced::annotations(annotations, reads));
        let terminal = self.status.terminal();
        let security = self.spec.security_context;
        let read = |raw: Vec<RawContainer<'_>>, statuses: Option<Vec<RawStatus>>| {
            let statuses = statuses.unwrap_or_default().into_iter();
            let mut statuses: BTreeMap<String, RawStatus> = statuses
                .map(|status| (status.name.clone(), status))
                .collect();
            raw.into_iter()
                .map(|container| {
                    let status = statuses.remove(&container.name);
                    container.into_container(status, security, reads)
                })
                .collect::<Result<Vec<Container>, _>>()
        };
        let PodStatus {
            container_statuses,
            init_container_statuses,
            ..
        } = self.status;
        let shape = |source| SkippedPod::Shape { index, source };
        let mut containers = read(self.spec.containers, container_statuses).map_err(shape)?;
        // The allocation has room for the larger raw containers, and a pod stays in memory.
        containers.shrink_to_fit();
        let init = self.spec.init_containers.unwrap_or_default();
        let init = read(init, init_container_statuses).map_err(shape)?;
        let requests = Requests::of_pod(
            containers.iter().map(|container| container.requests),
            init.iter().map(|init| Init {
                requests: init.requests,
                is_native_sidecar: init.restart_policy == Some(RestartPolicy::Always),
            }),
            self.spec
                .resources
                .map(RawResources::explicit)
                .unwrap_or_default(),
            self.spec.overhead.map(RawRequests::sum).unwrap_or_default(),
        );
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
            annotations: annotations.transpose().map_err(shape)?.unwrap_or_default(),
            deleting: deletion_timestamp.is_some(),
            deletion_expires: deletion_timestamp.as_deref().and_then(unix_time),
            grace: deletion_grace_period_seconds
                .or(self.spec.termination_grace_period_seconds)
                .map_or(DEFAULT_GRACE, seconds),
            host_network: self.spec.host_network,
            runtime_class: self.spec.runtime_class_name,
            terminal,
            native_sidecars,
            init_containers,
            init_restarters,
            restart_policy: self.spec.restart_policy.unwrap_or_default(),
            containers,
            requests,
        })
    }
}

/// The fields that tell whether a pod has finished.
#[derive(Deserialize)]
pub(super) struct Outline<'list> {
    #[serde(borrow)]
    metadata: OutlineMetadata<'list>,
    #[serde(borrow, default)]
    status: OutlineStatus<'list>,
}

#[derive(Deserialize)]
struct OutlineMetadata<'list> {
    #[serde(borrow)]
    uid: Cow<'list, str>,
}

#[derive(Deserialize, Default)]
struct OutlineStatus<'list> {
    #[serde(borrow, default)]
    phase: Cow<'list, str>,
}

impl Outline<'_> {
    /// The UID of a finished pod, if it is valid.
    pub(super) fn finished(&self) -> Option<PodUid> {
        let uid = is_terminal(&self.status.phase).then_some(&self.metadata.uid)?;
        PodUid::parse(uid).ok()
    }
}

/// The API server takes a negative value as 1.
fn seconds(value: i64) -> Duration {
    Duration::from_secs(u64::try_from(value).unwrap_or(1))
}

/// The time of an API object, since 1970-01-01T00:00:00Z.
fn unix_time(text: &str) -> Option<Duration> {
    let time = humantime::parse_rfc3339(text).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok()
}

fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// `namespace/name` in the first bytes of a pod. The kubelet writes the metadata first.
pub(super) fn name_in(beginning: &[u8]) -> Option<String> {
    struct Beginning<'name>(&'name mut Option<String>);

    impl<'json> Visitor<'json> for Beginning<'_> {
        type Value = ();

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a pod")
        }

        fn visit_map<A: MapAccess<'json>>(self, mut members: A) -> Result<(), A::Error> {
            #[derive(Deserialize)]
            struct Metadata {
                namespace: String,
                name: String,
            }
            while let Some(member) = members.next_key::<Cow<'_, str>>()? {
                if member == "metadata" {
                    let metadata: Metadata = members.next_value()?;
                    *self.0 = Some(format!("{}/{}", metadata.namespace, metadata.name));
                    return Err(A::Error::custom("the name is known"));
                }
                members.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }

    let mut name = None;
    let mut json = serde_json::Deserializer::from_slice(beginning);
    // The JSON is cut off, so this ends with an error also where it finds the name.
    drop(json.deserialize_map(Beginning(&mut name)));
    name
}
