//! The requested pods and their containers.

mod container;
mod probe;
mod restart;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::synthetic::layout::Qos;
use crate::synthetic::wire::{Capture, Manner};

pub use container::{ADMIN_PORT, ContainerSpec, ISTIO_PROXY, STATUS_PORT, Variable};
pub use probe::{Probe, ProbeKind};
pub use restart::{RestartPolicy, RestartRule};

/// The default timeout of the CNI plugin.
const PLUGIN_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest timeout that can be configured. A live agent answers within it, also a debug build on a machine that
/// does other work.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// A requested pod.
#[derive(Debug, Clone)]
pub struct PodSpec {
    /// Unique on the node.
    pub name: String,
    /// `default` unless a test sets another one.
    pub namespace: String,
    /// The user's annotations; more are added as in a real cluster.
    pub annotations: BTreeMap<String, String>,
    /// The user's labels; more are added as in a real cluster.
    pub labels: BTreeMap<String, String>,
    pub restart_policy: RestartPolicy,
    pub origin: Origin,
    /// It determines the cgroup.
    pub qos: Qos,
    /// The namespaces that its processes share.
    pub shares: Shares,
    pub runtime_class: Option<String>,
    /// More fields of its spec, as the kubelet serves them. No component acts on them.
    pub fields: BTreeMap<String, Value>,
    /// The start time in its status; None is long ago.
    pub since: Option<SystemTime>,
    /// Time between the pod's cgroup directory and its network namespace.
    pub network_delay: Duration,
    /// They run one after the other before the others.
    pub init_containers: Vec<ContainerSpec>,
    /// In order of creation.
    pub containers: Vec<ContainerSpec>,
    /// The CNI plugin announces it to the agent, with this timeout.
    pub announced: Option<Duration>,
    /// Its sandbox is created with the pod; otherwise by [`Pod::announce`](crate::synthetic::Pod::announce).
    pub has_sandbox_at_once: bool,
    /// It has an interface with a default route and no peer.
    pub routed: bool,
    /// A mesh's rules that exist from the start.
    pub capture: Option<Capture>,
    /// Other rules, as a script of the `nft` program.
    pub filter: String,
    /// Mount points and texts of its resolver files: `program::RESOLV_CONF` and `program::HOSTS`.
    pub files: BTreeMap<&'static str, String>,
}

/// The creator of a pod, which determines its owner and the format of its UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A Job's controller.
    Job,
    /// Created directly: it has no owner.
    NoOwner,
    /// A file on the node: a static pod with a UID of 32 hex digits without
    /// dashes.
    File,
}

/// The namespaces that a pod shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// `shareProcessNamespace`: one pid namespace for all containers.
    pub processes: bool,
    /// `hostPID`
    pub host_pids: bool,
    /// `hostNetwork`. Only on a node in a machine of its own
    /// ([`crate::synthetic::machine`]), since loopback is then the node's.
    pub host_network: bool,
    /// Its processes are in the node's network namespace, and its spec does not report it.
    pub host_network_unreported: bool,
    /// `hostUsers: false`: a user namespace of its own.
    pub own_users: bool,
}

impl PodSpec {
    /// A pod of a Job: policy Never, BestEffort, no containers yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            restart_policy: RestartPolicy::Never,
            origin: Origin::Job,
            qos: Qos::BestEffort,
            shares: Shares::default(),
            runtime_class: None,
            fields: BTreeMap::new(),
            since: None,
            network_delay: Duration::ZERO,
            init_containers: Vec::new(),
            containers: Vec::new(),
            announced: None,
            has_sandbox_at_once: true,
            routed: false,
            capture: None,
            filter: String::new(),
            files: BTreeMap::new(),
        }
    }

    /// One app called `app` and a well-behaved Istio sidecar.
    pub fn job(name: &str) -> Self {
        Self::beside_app(name, ContainerSpec::istio(Manner::Quit))
    }

    /// One app called `app` and this sidecar.
    pub fn beside_app(name: &str, sidecar: ContainerSpec) -> Self {
        Self::new(name)
            .with(ContainerSpec::app("app"))
            .with(sidecar)
    }

    /// The same as [`Self::job`] with the app below a wrapper.
    pub fn wrapped_job(name: &str) -> Self {
        Self::new(name)
            .with(ContainerSpec::wrapped_app("app"))
            .with(ContainerSpec::istio(Manner::Quit))
    }

    #[must_use]
    pub fn with(mut self, container: ContainerSpec) -> Self {
        self.containers.push(container);
        self
    }

    /// Adds an init container. Without [`Self::announced`] the kubelet lists
    /// none of them.
    #[must_use]
    pub fn init(mut self, container: ContainerSpec) -> Self {
        self.init_containers.push(container);
        self
    }

    /// The CNI plugin announces it to the agent.
    #[must_use]
    pub const fn announced(mut self) -> Self {
        self.announced = Some(PATIENT_TIMEOUT);
        self.routed = true;
        self
    }

    /// The same with the default timeout: for an agent that does
    /// not respond.
    #[must_use]
    pub const fn impatient(mut self) -> Self {
        self.announced = Some(PLUGIN_TIMEOUT);
        self.routed = true;
        self
    }

    /// The same, when the test calls [`Pod::announce`](crate::synthetic::Pod::announce). Until then the pod has its
    /// cgroup and its network namespace, and no container.
    #[must_use]
    pub const fn announced_on_command(mut self) -> Self {
        self.has_sandbox_at_once = false;
        self.impatient()
    }

    /// A mesh captures its connections from the start.
    #[must_use]
    pub fn captured(mut self, capture: Capture) -> Self {
        self.capture = Some(capture);
        self.routed = true;
        self
    }

    /// Has this text in a resolver file.
    #[must_use]
    pub fn with_file(mut self, point: &'static str, text: &str) -> Self {
        self.files.insert(point, text.to_owned());
        self
    }

    /// Adds rules from the start, as a script of the `nft` program.
    #[must_use]
    pub fn filtered(mut self, script: &str) -> Self {
        script.clone_into(&mut self.filter);
        self
    }

    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets the limit of holds of connections and starts.
    #[must_use]
    pub fn hold_deadline(self, deadline: Duration) -> Self {
        self.annotation(
            "usher.dev/hold-deadline",
            &format!("{}s", deadline.as_secs()),
        )
    }

    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets the restart policy.
    #[must_use]
    pub const fn policy(mut self, policy: RestartPolicy) -> Self {
        self.restart_policy = policy;
        self
    }

    /// Sets the creator.
    #[must_use]
    pub const fn origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// Sets the QoS class.
    #[must_use]
    pub const fn qos(mut self, qos: Qos) -> Self {
        self.qos = qos;
        self
    }

    /// Sets the runtime class.
    #[must_use]
    pub fn runtime_class(mut self, name: &str) -> Self {
        self.runtime_class = Some(name.to_owned());
        self
    }

    /// Adds a field to its spec, as the kubelet serves it.
    #[must_use]
    pub fn field(mut self, key: &str, value: Value) -> Self {
        self.fields.insert(key.to_owned(), value);
        self
    }

    /// Sets the start time.
    #[must_use]
    pub const fn since(mut self, since: SystemTime) -> Self {
        self.since = Some(since);
        self
    }

    /// Shares one pid namespace between all containers.
    #[must_use]
    pub const fn sharing_processes(mut self) -> Self {
        self.shares.processes = true;
        self
    }

    /// Uses the node's pid namespace.
    #[must_use]
    pub const fn host_pids(mut self) -> Self {
        self.shares.host_pids = true;
        self
    }

    /// Uses the node's network namespace.
    #[must_use]
    pub const fn host_network(mut self) -> Self {
        self.shares.host_network = true;
        self
    }

    /// Uses a user namespace of its own.
    #[must_use]
    pub const fn own_users(mut self) -> Self {
        self.shares.own_users = true;
        self
    }
}
