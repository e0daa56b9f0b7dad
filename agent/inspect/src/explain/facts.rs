//! What a diagnosis needs of one pod as the kubelet describes it: more than [`usher_core::pod::spec::Pod`], which an agent keeps of
//! every pod and for long.
//!
//! Reading is lenient: what is missing or has another type counts as absent, since a pod that something is wrong with is
//! just what is to be explained. Nothing in here may panic, whatever the bytes are.

mod container;

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use usher_core::base::id::PodUid;

pub use self::container::{Act, Container, Ended, Port, Probe, State, Status};
use super::date;

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// All annotations.
    pub annotations: BTreeMap<String, String>,
    /// Kind and name of what controls it.
    pub owner: Option<(String, String)>,
    /// The Node that it is on.
    pub node: String,
    /// Phase of its status.
    pub phase: String,
    /// Why it is in this phase, where the status says so.
    pub reason: String,
    /// When it was made, milliseconds since 1970.
    pub created_ms: Option<u64>,
    /// When the kubelet took it up.
    pub started_ms: Option<u64>,
    /// When its deletion was asked for.
    pub deletion_ms: Option<u64>,
    /// How long it may run, from its start.
    pub active_deadline: Option<Duration>,
    /// Its containers see each other's processes.
    pub shares_processes: bool,
    /// Init containers and native sidecars, in order.
    pub init: Vec<Container>,
    /// Regular containers, in order.
    pub containers: Vec<Container>,
}

impl Facts {
    /// The pod of this UID in a `v1.PodList`; None where it is not in it, or where this is no such list.
    pub fn find(list: &[u8], uid: &PodUid) -> Option<Self> {
        #[derive(Deserialize)]
        struct List<'list> {
            #[serde(borrow)]
            items: Option<Vec<&'list RawValue>>,
        }
        #[derive(Deserialize)]
        struct Identity {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            uid: String,
        }
        let list: List<'_> = serde_json::from_slice(list).ok()?;
        let mut items = list.items.unwrap_or_default().into_iter();
        let ours = items.find(|item| {
            let identity = serde_json::from_str::<Identity>(item.get());
            identity.is_ok_and(|found| found.metadata.uid == uid.as_str())
        })?;
        serde_json::from_str(ours.get())
            .ok()
            .map(|pod| Self::of(&pod))
    }

    /// Reads one pod.
    pub fn of(pod: &Value) -> Self {
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let containers = |specs: &str, statuses: &str| -> Vec<Container> {
            let containers = list(&spec[specs]).iter().enumerate();
            containers
                .map(|(index, container)| {
                    let place = format!("spec.{specs}[{index}]");
                    Container::of(container, list(&status[statuses]), place)
                })
                .collect()
        };
        let mut owners = list(&metadata["ownerReferences"]).iter();
        let owner = owners.find(|owner| owner["controller"] == true);
        Self {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            annotations: texts(&metadata["annotations"]),
            owner: owner.map(|owner| (text(&owner["kind"]), text(&owner["name"]))),
            node: text(&spec["nodeName"]),
            phase: text(&status["phase"]),
            reason: text(&status["reason"]),
            created_ms: time(&metadata["creationTimestamp"]),
            started_ms: time(&status["startTime"]),
            deletion_ms: time(&metadata["deletionTimestamp"]),
            active_deadline: spec["activeDeadlineSeconds"]
                .as_u64()
                .map(Duration::from_secs),
            shares_processes: spec["shareProcessNamespace"] == true || spec["hostPID"] == true,
            init: containers("initContainers", "initContainerStatuses"),
            containers: containers("containers", "containerStatuses"),
        }
    }

    /// The container of this name, of whatever kind.
    pub fn container(&self, name: &str) -> Option<&Container> {
        let mut all = self.containers.iter().chain(&self.init);
        all.find(|container| container.name == name)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// An object of texts.
fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    let texts = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

/// A list of texts; what is none is left out.
fn words(value: &Value) -> Vec<String> {
    let words = list(value).iter().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

fn time(value: &Value) -> Option<u64> {
    date::parse(value.as_str()?)
}

#[cfg(test)]
mod tests;
