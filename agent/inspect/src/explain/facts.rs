//! The kubelet's data about one pod that a diagnosis needs. It is more than [`usher_core::pod::spec::Pod`], which the
//! agent keeps for every pod.
//!
//! Parsing is lenient: a field that is missing or has another type counts as absent, since explain is for broken pods.
//! Nothing here panics on any input.

mod container;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

pub use self::container::{
    Act, Container, Ended, Port, Probe, STARTUP_PROBE, State, Status, Waiting,
};
use super::date;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    pub namespace: String,
    pub name: String,
    pub annotations: BTreeMap<String, String>,
    /// Kind and name of the controller.
    pub owner: Option<(String, String)>,
    pub node: String,
    pub phase: String,
    /// `status.reason`, which is empty for most phases.
    pub reason: String,
    /// Milliseconds since 1970, as all times here.
    pub created_ms: Option<u64>,
    /// When the kubelet accepted the pod.
    pub started_ms: Option<u64>,
    /// When the deletion was requested.
    pub deletion_ms: Option<u64>,
    /// When the grace period of the deletion ends.
    pub grace_end_ms: Option<u64>,
    /// Counted from the pod's start.
    pub active_deadline: Option<Duration>,
    /// Whether the containers share a pid namespace.
    pub shares_processes: bool,
    /// Init containers and native sidecars, in order.
    pub init: Vec<Container>,
    pub containers: Vec<Container>,
}

impl Facts {
    /// Reads a pod of a `v1.PodList`; None if it is not JSON.
    pub fn read(pod: &str) -> Option<Self> {
        let pod: Value = serde_json::from_str(pod).ok()?;
        Some(Self::parse(&pod))
    }

    pub fn parse(pod: &Value) -> Self {
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let containers = |specs: &str, statuses: &str| -> Vec<Container> {
            let containers = list(&spec[specs]).iter().enumerate();
            containers
                .map(|(index, container)| {
                    let place = format!("spec.{specs}[{index}]");
                    Container::parse(container, list(&status[statuses]), place)
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
            deletion_ms: deletion_ms(metadata),
            grace_end_ms: time(&metadata["deletionTimestamp"]),
            active_deadline: spec["activeDeadlineSeconds"]
                .as_u64()
                .map(Duration::from_secs),
            shares_processes: spec["shareProcessNamespace"] == true || spec["hostPID"] == true,
            init: containers("initContainers", "initContainerStatuses"),
            containers: containers("containers", "containerStatuses"),
        }
    }

    pub fn container(&self, name: &str) -> Option<&Container> {
        let mut all = self.containers.iter().chain(&self.init);
        all.find(|container| container.name == name)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}

/// The API server adds the grace period to the time of the request.
fn deletion_ms(metadata: &Value) -> Option<u64> {
    let grace = metadata["deletionGracePeriodSeconds"].as_u64();
    let grace_ms = grace.unwrap_or_default().saturating_mul(1000);
    Some(time(&metadata["deletionTimestamp"])?.saturating_sub(grace_ms))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    let texts = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

fn words(value: &Value) -> Vec<String> {
    let words = list(value).iter().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

pub(super) fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn time(value: &Value) -> Option<u64> {
    date::parse(value.as_str()?)
}

#[cfg(test)]
mod tests;
