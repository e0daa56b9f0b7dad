//! The pod that a command acts on: its containers with their processes, and its network namespace.

use std::net::IpAddr;

use usher_client::error_chain::chain;
use usher_core::{
    admin::{Pod, Role},
    base::id::{ContainerId, ContainerKey, Pid, PodUid},
};
use usher_inspect::pod_selector::{self, Candidate, Names};
use usher_sys::{
    net::netns::Netns,
    pods::{pidfd::Pidfd, proc::ProcRoot},
};

use super::{Node, Survey, survey::uid_of};
use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) uid: PodUid,
    /// The pod as the engine reports it.
    pub(crate) pod: Pod,
    pub(crate) ips: Vec<IpAddr>,
    /// The containers that have a cgroup, including the sandbox.
    pub(crate) containers: Vec<TargetContainer>,
    /// Data that could not be read.
    pub(crate) gaps: Vec<String>,
}

/// One container that has a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetContainer {
    pub(crate) id: ContainerId,
    /// None for the sandbox.
    pub(crate) name: Option<String>,
    pub(crate) role: Role,
    pub(crate) recipe: Option<String>,
    /// Its init process, in the host's pid namespace.
    pub(crate) init: Option<Pid>,
    pub(crate) processes: Vec<Pid>,
}

impl Survey {
    /// The pod that the argument selects.
    pub(crate) fn target(&self, given: &str, names: Names) -> Result<Target, Failure> {
        let candidates: Vec<Candidate> = self.pods.iter().map(|pod| self.candidate(pod)).collect();
        let index = pod_selector::select(given, names, &candidates)?;
        let gone = || Failure::unavailable(format!("pod {given:?} has just ended"));
        let pod = self.pods.get(index).cloned().ok_or_else(gone)?;
        let uid = uid_of(&pod).ok_or_else(gone)?;
        let looks = self
            .seen
            .iter()
            .filter(|(found, _looks)| found.uid == uid)
            .flat_map(|(_found, looks)| looks.clone());
        let containers = looks.map(|(key, look)| {
            let known = pod
                .containers
                .iter()
                .find(|known| known.id.as_deref() == Some(key.id.as_str()));
            TargetContainer {
                name: look
                    .name
                    .or_else(|| known.and_then(|known| known.name.clone())),
                role: known.map_or(Role::Other, |known| known.role),
                recipe: known.and_then(|known| known.recipe.clone()),
                init: look.init,
                processes: look.processes,
                id: key.id,
            }
        });
        let mut containers: Vec<TargetContainer> = containers.collect();
        containers.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        Ok(Target {
            ips: self.ips.get(&pod.uid).cloned().unwrap_or_default(),
            uid,
            pod,
            containers,
            gaps: self.gaps.clone(),
        })
    }

    fn candidate(&self, pod: &Pod) -> Candidate {
        let named = pod.name.is_some();
        let looks = self
            .seen
            .iter()
            .find(|(found, _looks)| found.uid.as_str() == pod.uid)
            .map(|(_found, looks)| looks);
        let listed = pod.containers.iter().filter_map(|known| known.id.clone());
        let seen = looks.into_iter().flatten();
        Candidate {
            uid: pod.uid.clone(),
            name: named.then(|| pod.display_name()),
            ips: if pod.host_network {
                Vec::new()
            } else {
                self.ips.get(&pod.uid).cloned().unwrap_or_default()
            },
            containers: seen
                .clone()
                .map(|(key, _look)| key.id.to_string())
                .chain(listed)
                .collect(),
            pids: seen
                .flat_map(|(_key, look)| &look.processes)
                .map(|pid| pid.0)
                .collect(),
        }
    }
}

impl Target {
    /// The pod's network namespace; with hostNetwork the node's own.
    pub(crate) fn netns(&self, node: &Node) -> Result<Netns, Failure> {
        let pod = self.pod.display_name();
        let mut refused = None;
        for container in &self.containers {
            let Some(init) = container.init else { continue };
            match of_container(node, &self.key(container), init) {
                Ok(Some(netns)) => return self.checked(node, netns),
                Ok(None) => {}
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.map_or_else(
            || {
                Failure::unavailable(format!(
                    "{pod} has no processes, and so no network namespace"
                ))
            },
            |error| {
                Failure::refused(format!(
                    "cannot open the network namespace of {pod}: {error}"
                ))
            },
        ))
    }

    /// Rejects a pod that is in the node's namespace without hostNetwork: the data about it must be wrong.
    fn checked(&self, node: &Node, netns: Netns) -> Result<Netns, Failure> {
        if node.is_own_network(&netns) && !self.pod.host_network && self.pod.name.is_some() {
            let text = format!(
                "{} uses the node's network namespace although its spec does not set hostNetwork; refused",
                self.pod.display_name()
            );
            return Err(Failure::refused(text));
        }
        Ok(netns)
    }

    fn key(&self, container: &TargetContainer) -> ContainerKey {
        ContainerKey {
            pod: self.uid.clone(),
            id: container.id.clone(),
        }
    }

    /// Whether this process is in this container now. If so, data that was read before belongs to the container: the
    /// PID may have been reused since the survey.
    pub(crate) fn has(&self, proc: &ProcRoot, container: &TargetContainer, pid: Pid) -> bool {
        proc.is_in(pid, &self.key(container)).unwrap_or(false)
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &TargetContainer> {
        self.containers
            .iter()
            .filter(|container| container.init.is_some())
    }
}

/// The namespace of a process that is certainly in this container; None if it has exited.
fn of_container(node: &Node, key: &ContainerKey, init: Pid) -> Result<Option<Netns>, String> {
    let pidfd = match Pidfd::open(init) {
        Ok(pidfd) => pidfd,
        Err(gone) if gone.is_gone() => return Ok(None),
        Err(error) => return Err(chain(&error)),
    };
    let netns = match Netns::of_process(&node.proc, init) {
        Ok(netns) => netns,
        Err(gone) if gone.is_gone() => return Ok(None),
        Err(error) => return Err(chain(&error)),
    };
    // The order matters: a process that is alive now had this PID when its namespace was opened.
    let ours = node.proc.is_in(init, key).map_err(|error| chain(&error))?;
    Ok((ours && pidfd.is_alive()).then_some(netns))
}
