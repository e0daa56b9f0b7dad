//! One pod, as usher sees it.

use serde::{Deserialize, Serialize};

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its namespace; None before the kubelet lists it.
    pub namespace: Option<String>,
    /// Its name, likewise.
    pub name: Option<String>,
    /// How far it is.
    pub state: PodState,
    /// The decision that stands, such as `not-yet`.
    pub decision: Option<String>,
    /// Why, in words.
    pub reason: Option<String>,
    /// Ports at which connections wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_ports: Vec<u16>,
    /// Apps whose starts wait.
    #[serde(default)]
    pub held_starts: usize,
    /// It uses the node's own network namespace.
    #[serde(default)]
    pub host_network: bool,
    /// It is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// Its containers: init ones, native sidecars, regular ones, in the order of the spec; then what nobody can name.
    pub containers: Vec<Container>,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodState {
    /// The kubelet has not listed it, or what its Namespace says is not known.
    Unknown,
    /// There is nothing for usher to do in it.
    NotOurs,
    /// Its connections wait.
    Held,
    /// Its apps run, or are to.
    Running,
    /// All its apps ended for good; sidecars are left.
    Finished,
    /// And its sidecars ended as well.
    Done,
}

impl PodState {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NotOurs => "not-ours",
            Self::Held => "held",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Done => "done",
        }
    }
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its name; None where nobody can tell.
    pub name: Option<String>,
    /// The runtime's id of its newest run.
    pub id: Option<String>,
    /// What it is to usher.
    pub role: Role,
    /// The recipe that recognises it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// The image, as the spec writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How far its newest run is.
    pub state: ContainerState,
    /// Its exit code, where it ended and the code is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Its init process, in the host's pid namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// What a container is to usher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// What the pod is for.
    App,
    /// A recipe or an annotation says that it serves the apps.
    Sidecar,
    /// An init container with `restartPolicy: Always`, which the kubelet ends.
    Native,
    /// An init container that ends before the regular ones start.
    Init,
    /// The sandbox, or a container of which nothing is known.
    Other,
}

impl Role {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Sidecar => "sidecar",
            Self::Native => "native",
            Self::Init => "init",
            Self::Other => "other",
        }
    }
}

/// How far a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    /// The kernel has never shown it.
    Unseen,
    /// It has a cgroup and no init process yet.
    Starting,
    /// It runs.
    Running,
    /// Its init process ended.
    Exited,
}

impl ContainerState {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Exited => "exited",
        }
    }
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
