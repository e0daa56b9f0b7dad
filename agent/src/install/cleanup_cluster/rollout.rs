//! The progress of the rollout: clean nodes, and the reasons for the others.

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ContainerStatus, Pod},
};

use super::patch;

/// A node that is not clean.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lagging {
    pub(super) node: String,
    pub(super) why: String,
}

impl Lagging {
    /// For a cause that concerns all nodes.
    pub(super) fn everywhere(why: &str) -> Self {
        Self {
            node: "(all)".to_owned(),
            why: why.to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rollout {
    Gone,
    Clean { nodes: usize },
    Waiting { clean: usize, lagging: Vec<Lagging> },
}

/// The label selector of the DaemonSet's pods.
pub(super) fn selector(daemonset: &DaemonSet) -> String {
    let spec = daemonset.spec.as_ref();
    let labels = spec.and_then(|spec| spec.selector.match_labels.as_ref());
    let pairs = labels.into_iter().flatten();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// The pods of a DaemonSet, counted page by page.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    daemonset: &'a DaemonSet,
    container: &'a str,
    clean: usize,
    cleaning_up: usize,
    lagging: Vec<Lagging>,
}

impl<'a> Progress<'a> {
    pub(super) const fn of(daemonset: &'a DaemonSet, container: &'a str) -> Self {
        Self {
            daemonset,
            container,
            clean: 0,
            cleaning_up: 0,
            lagging: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, pods: &[Pod]) {
        for pod in pods.iter().filter(|pod| is_of(pod, self.daemonset)) {
            self.cleaning_up += usize::from(is_cleaning_up(pod, self.container));
            match why_not(pod, self.container) {
                None => self.clean += 1,
                Some(why) => {
                    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
                    let node = node.unwrap_or_else(|| "(none yet)".to_owned());
                    self.lagging.push(Lagging { node, why });
                }
            }
        }
    }

    /// Compares the pods with the number of nodes that should have one.
    pub(super) fn judge(self) -> Rollout {
        let Self {
            daemonset,
            clean,
            cleaning_up,
            mut lagging,
            ..
        } = self;
        let status = daemonset.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        let wanted = status.map_or(0, |status| status.desired_number_scheduled);
        if observed < daemonset.metadata.generation {
            lagging.push(Lagging::everywhere(
                "the DaemonSet controller has not observed the change yet",
            ));
        }
        let missing = usize::try_from(wanted)
            .unwrap_or_default()
            .saturating_sub(cleaning_up);
        if missing > 0 && lagging.is_empty() {
            lagging.push(Lagging {
                node: format!("({missing} of {wanted})"),
                why: "its pod does not exist yet".to_owned(),
            });
        }
        if lagging.is_empty() {
            Rollout::Clean { nodes: clean }
        } else {
            lagging.sort();
            Rollout::Waiting { clean, lagging }
        }
    }
}

fn is_of(pod: &Pod, daemonset: &DaemonSet) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let mut uids = owners.map(|owner| Some(&owner.uid));
    uids.any(|uid| uid == daemonset.metadata.uid.as_ref())
}

fn is_cleaning_up(pod: &Pod, container: &str) -> bool {
    let is_going = pod.metadata.deletion_timestamp.is_some();
    let spec = pod.spec.as_ref();
    !is_going && spec.is_some_and(|spec| patch::cleans_up(spec, container))
}

/// Why a pod's node is not clean; None if it is.
fn why_not(pod: &Pod, container: &str) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(format!("pod {name} has not ended yet"));
    }
    if !is_cleaning_up(pod, container) {
        return Some(format!("pod {name} is not replaced yet"));
    }
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let condition = |kind: &str| {
        let conditions = conditions.unwrap_or_default();
        conditions.iter().find(|condition| condition.type_ == kind)
    };
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return None;
    }
    let statuses = status.and_then(|status| status.container_statuses.as_deref());
    let agent = statuses.unwrap_or_default().iter();
    let agent = agent.clone().find(|status| status.name == container);
    if let Some(reason) = agent.and_then(reason) {
        return Some(format!("pod {name}: {reason}"));
    }
    let unscheduled = condition("PodScheduled").filter(|scheduled| scheduled.status == "False");
    if let Some(message) = unscheduled.and_then(|scheduled| scheduled.message.as_deref()) {
        return Some(format!("pod {name}: {message}"));
    }
    let phase = status.and_then(|status| status.phase.as_deref());
    match phase.unwrap_or("Pending") {
        "Running" => Some(format!(
            "pod {name} is not ready: its cleanup is running, or something is left there"
        )),
        phase => Some(format!("pod {name} is {phase}")),
    }
}

/// Why a container is not running.
fn reason(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        return waiting.reason.clone();
    }
    let ended = state.terminated.as_ref()?;
    Some(format!("its agent ended with {}", ended.exit_code))
}

#[cfg(test)]
mod tests;
