//! A pod as the kubelet describes it, reduced to what decisions need.

#[cfg(any(test, feature = "testing"))]
pub mod plain;

use std::{collections::BTreeMap, time::Duration};

use crate::{
    base::id::{ContainerId, PodUid},
    pod::{
        requests::Requests,
        restart_policy::{RestartPolicy, RestartRule},
    },
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub uid: PodUid,
    pub namespace: String,
    pub name: String,
    /// Its annotations that begin with [`crate::settings::annotation::PREFIX`], and those that a recipe reads.
    pub annotations: BTreeMap<String, String>,
    /// The pod is being deleted: the kubelet terminates it.
    pub deleting: bool,
    /// When its grace period ends, since 1970-01-01T00:00:00Z, if it is being deleted.
    pub deletion_expires: Option<Duration>,
    /// Its grace period: that of its deletion, else that of its spec.
    pub grace: Duration,
    pub host_network: bool,
    /// The RuntimeClass that it requests, if any.
    pub runtime_class: Option<String>,
    /// Why its phase is Succeeded or Failed, once it is: the kubelet has terminated it, or will.
    pub terminal: Option<String>,
    /// The policy of containers without their own.
    pub restart_policy: RestartPolicy,
    /// Regular containers, in the order of the spec. Of init containers, native sidecars among them, little more than
    /// names is kept; of ephemeral ones nothing.
    pub containers: Vec<Container>,
    /// Names of its native sidecars, for people.
    pub native_sidecars: Vec<String>,
    /// Init containers and native sidecars with a rule that restarts the whole pod.
    pub init_restarters: Vec<Container>,
    /// Names of its init containers that end before the regular ones start, in that order.
    pub init_containers: Vec<String>,
    /// What the scheduler reserves for it.
    pub requests: Requests,
}

/// The grace period of a pod that does not set one.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// One regular container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Name, unique in the pod.
    pub name: String,
    /// Image as the spec writes it.
    pub image: String,
    /// The digest of the running image, where the status has it.
    pub image_id: Option<String>,
    /// Command and arguments as the spec writes them.
    pub words: Vec<String>,
    /// Its variables with literal values that a recipe reads.
    pub env: BTreeMap<String, String>,
    /// The user that it runs as by its own or the pod's security context.
    pub user: Option<u32>,
    /// The user of its own security context, which no other container inherits.
    pub own_user: Option<u32>,
    /// The group of its own security context.
    pub own_group: Option<u32>,
    pub requests: Requests,
    /// Own restart policy, if it has one ([KEP-5307](https://github.com/kubernetes/enhancements/issues/5307)).
    pub restart_policy: Option<RestartPolicy>,
    /// Own restart rules, tried in order before the policy.
    pub restart_rules: Vec<RestartRule>,
    /// The probes for which the kubelet may kill it.
    pub probes: Vec<KubeletProbe>,
    /// The kubelet may restart it for a change of its resources
    /// ([KEP-1287](https://github.com/kubernetes/enhancements/issues/1287)).
    pub restarts_on_resize: bool,
    /// What the API server last reported to the kubelet. It is as old as the kubelet's watch, so it counts only where
    /// the kernel has no answer.
    pub status: Option<Status>,
}

/// A probe of the kubelet that kills a container which fails it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeletProbe {
    pub kind: ProbeKind,
    /// The kubelet executes a command in the container, instead of a connection to its app.
    pub in_container: bool,
    /// Time from the container's start to the first probe; whole seconds.
    pub initial_delay: Duration,
    /// Time between two; whole seconds, at least one.
    pub period: Duration,
    /// Failures in a row that end the container; at least one.
    pub failures: u32,
}

/// Kinds of probes that end a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    /// The probe detects that the container has started; other probes wait for it.
    Startup,
    /// The probe detects that the container is alive.
    Liveness,
}

impl ProbeKind {
    /// The field's name in a pod's spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startupProbe",
            Self::Liveness => "livenessProbe",
        }
    }
}

/// The status of one container in a pod's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The newest run, if there was one.
    pub id: Option<ContainerId>,
    pub state: RunState,
    /// The previous run, where its exit code is known.
    pub last: Option<Ended>,
}

/// State of a container's newest run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It has not started, or waits for its restart.
    Waiting,
    /// It runs, or ran when this status was made.
    Running,
    Terminated(i32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub id: ContainerId,
    /// Its exit code, 128 + n for signal n.
    pub code: i32,
}

impl Pod {
    /// The regular container of this name.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.containers
            .iter()
            .find(|container| container.name == name)
    }

    /// The effective restart policy of one of its containers.
    pub fn policy_of(&self, container: &Container) -> RestartPolicy {
        container.restart_policy.unwrap_or(self.restart_policy)
    }

    /// `namespace/name`, as logs and Events write it.
    pub fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Whether the name is valid for a container: a label of [RFC 1123](https://www.rfc-editor.org/rfc/rfc1123).
pub(crate) fn is_container_name(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let bounded = (1..=63).contains(&name.len()) && name.bytes().all(known);
    bounded && !name.starts_with('-') && !name.ends_with('-')
}

impl Container {
    /// Exit code of the run `id`, where the status has it.
    pub fn reported_code(&self, id: &ContainerId) -> Option<i32> {
        let status = self.status.as_ref()?;
        match (&status.state, &status.last) {
            (RunState::Terminated(code), _) if status.id.as_ref() == Some(id) => Some(*code),
            (_, Some(last)) if last.id == *id => Some(last.code),
            _ => None,
        }
    }
}
