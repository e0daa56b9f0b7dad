//! What a test asks for: pods and their containers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::synthetic::layout::Qos;
use crate::synthetic::wire::{End, Manner, Pace, Program, Sidecar};

/// Name of Istio's sidecar container.
pub const ISTIO_PROXY: &str = "istio-proxy";
/// pilot-agent's status port.
pub const STATUS_PORT: u16 = 15020;
/// Envoy's admin port.
pub const ADMIN_PORT: u16 = 15000;
const ISTIO_IMAGE: &str = "registry.example/istio/proxyv2:1.26.2";
const APP_IMAGE: &str = "registry.example/team/report:7.4.1";

/// As in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// `Never`
    Never,
    /// `OnFailure`
    OnFailure,
    /// `Always`
    Always,
}

impl RestartPolicy {
    /// As in a pod's spec.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "Never",
            Self::OnFailure => "OnFailure",
            Self::Always => "Always",
        }
    }
}

/// A container to be.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// Unique in the pod.
    pub name: String,
    /// By which recipes recognise sidecars.
    pub image: String,
    /// What its process does.
    pub program: Program,
    /// False: created by [`Pod::start`](crate::synthetic::Pod::start) only.
    pub at_once: bool,
    /// Delays of its creation and removal.
    pub pace: Pace,
}

impl ContainerSpec {
    /// A container with this program.
    pub fn new(name: &str, image: &str, program: Program) -> Self {
        Self {
            name: name.to_owned(),
            image: image.to_owned(),
            program,
            at_once: true,
            pace: Pace::default(),
        }
    }

    /// An app that ends when told.
    pub fn app(name: &str) -> Self {
        Self::new(name, APP_IMAGE, Program::App(End::WhenTold))
    }

    /// An app that ends by itself.
    pub fn brief_app(name: &str, life: Duration, code: u8) -> Self {
        let end = End::After { life, code };
        Self::new(name, APP_IMAGE, Program::App(end))
    }

    /// An app below a wrapper that asks the sidecar itself.
    pub fn wrapped_app(name: &str) -> Self {
        let program = Program::Wrapper {
            port: STATUS_PORT,
            app: End::WhenTold,
        };
        Self::new(name, APP_IMAGE, program)
    }

    /// An Istio sidecar whose status port behaves like this. It has no admin
    /// port, and SIGTERM ends it with code 0.
    pub fn istio(manner: Manner) -> Self {
        let sidecar = Sidecar {
            ports: vec![(STATUS_PORT, manner)],
            listen_when_told: false,
            code_on_term: Some(0),
        };
        Self::new(ISTIO_PROXY, ISTIO_IMAGE, Program::Sidecar(sidecar))
    }

    /// The sidecar's admin port behaves like this.
    #[must_use]
    pub fn admin(mut self, manner: Manner) -> Self {
        self.sidecar().ports.push((ADMIN_PORT, manner));
        self
    }

    /// The sidecar refuses connections until told to `listen`.
    #[must_use]
    pub fn refusing(mut self) -> Self {
        self.sidecar().listen_when_told = true;
        self
    }

    /// The sidecar does not end on SIGTERM.
    #[must_use]
    pub fn deaf_to_term(mut self) -> Self {
        self.sidecar().code_on_term = None;
        self
    }

    /// Not created with the pod.
    #[must_use]
    pub const fn later(mut self) -> Self {
        self.at_once = false;
        self
    }

    /// With these delays.
    #[must_use]
    pub const fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    fn sidecar(&mut self) -> &mut Sidecar {
        match &mut self.program {
            Program::Sidecar(sidecar) => sidecar,
            other => panic!("{} is no sidecar: {other:?}", self.name),
        }
    }
}

/// A pod to be.
#[derive(Debug, Clone)]
pub struct PodSpec {
    /// Unique on the node.
    pub name: String,
    /// `default` unless said otherwise.
    pub namespace: String,
    /// The user's; noise is added to them.
    pub annotations: BTreeMap<String, String>,
    /// Of the pod.
    pub restart_policy: RestartPolicy,
    /// Decides the cgroup's place.
    pub qos: Qos,
    /// `shareProcessNamespace`
    pub share_processes: bool,
    /// Time between the pod's cgroup directory and its network namespace.
    pub network_delay: Duration,
    /// In order of creation.
    pub containers: Vec<ContainerSpec>,
}

impl PodSpec {
    /// A pod of a Job: never restarted, BestEffort, no containers yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            annotations: BTreeMap::new(),
            restart_policy: RestartPolicy::Never,
            qos: Qos::BestEffort,
            share_processes: false,
            network_delay: Duration::ZERO,
            containers: Vec::new(),
        }
    }

    /// One app called `app` and a well-behaved Istio sidecar.
    pub fn job(name: &str) -> Self {
        Self::new(name)
            .with(ContainerSpec::app("app"))
            .with(ContainerSpec::istio(Manner::Quit))
    }

    /// The same with the app below a wrapper.
    pub fn wrapped_job(name: &str) -> Self {
        Self::new(name)
            .with(ContainerSpec::wrapped_app("app"))
            .with(ContainerSpec::istio(Manner::Quit))
    }

    /// One more container.
    #[must_use]
    pub fn with(mut self, container: ContainerSpec) -> Self {
        self.containers.push(container);
        self
    }

    /// One more annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With this restart policy.
    #[must_use]
    pub const fn policy(mut self, policy: RestartPolicy) -> Self {
        self.restart_policy = policy;
        self
    }

    /// In this class.
    #[must_use]
    pub const fn qos(mut self, qos: Qos) -> Self {
        self.qos = qos;
        self
    }

    /// With one pid namespace for all containers.
    #[must_use]
    pub const fn sharing_processes(mut self) -> Self {
        self.share_processes = true;
        self
    }
}
