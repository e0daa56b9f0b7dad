//! Requested containers.

mod settings;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::synthetic::spec::{Probe, RestartPolicy, RestartRule};
use crate::synthetic::wire::{
    Answer, Capture, Client, Effect, End, Entry, Holding, Listen, Listener, Manner, Pace, Place,
    Program, Reaction, Route, Shape, Sidecar,
};

pub const ISTIO_PROXY: &str = "istio-proxy";
/// pilot-agent's status port.
pub const STATUS_PORT: u16 = 15020;
/// Envoy's admin port below pilot-agent.
pub const ADMIN_PORT: u16 = 15000;
const ISTIO_IMAGE: &str = "registry.example/istio/proxyv2:1.26.2";
const APP_IMAGE: &str = "registry.example/team/report:7.4.1";
const SIGTERM: i32 = 15;

/// A requested container.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// Unique in the pod.
    pub name: String,
    /// It identifies sidecars to recipes.
    pub image: String,
    /// It replaces that of the image.
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub env: Vec<Variable>,
    /// Its own restart policy instead of the pod's.
    pub restart_policy: Option<RestartPolicy>,
    /// Its own rules, which precede any policy.
    pub restart_rules: Vec<RestartRule>,
    /// Its user and group; None means root.
    pub user: Option<u32>,
    pub program: Program,
    /// False: only [`Pod::start`](crate::synthetic::Pod::start) creates it.
    pub at_once: bool,
    /// The delays of its creation and removal; None means the node's.
    pub pace: Option<Pace>,
    /// The location of its first program, on a node with bundles.
    pub entry: Entry,
    /// Deviations of its bundle.
    pub shape: Shape,
    /// The probes that the kubelet runs. The stand-in runs none.
    pub probes: Vec<Probe>,
    /// More fields of its spec, as the kubelet serves them. No component acts on them.
    pub fields: BTreeMap<String, Value>,
    /// The kubelet always reports it as not ready.
    pub unready: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: String,
    /// The spec refers to a Secret instead of having the value.
    pub secret: bool,
}

impl ContainerSpec {
    pub fn new(name: &str, image: &str, program: Program) -> Self {
        Self {
            name: name.to_owned(),
            image: image.to_owned(),
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            restart_policy: None,
            restart_rules: Vec::new(),
            user: None,
            program,
            at_once: true,
            pace: None,
            entry: Entry::default(),
            shape: Shape::default(),
            probes: Vec::new(),
            fields: BTreeMap::new(),
            unready: false,
        }
    }

    pub fn sidecar(name: &str, image: &str, sidecar: Sidecar) -> Self {
        Self::new(name, image, Program::Sidecar(sidecar))
    }

    /// An app that exits on command.
    pub fn app(name: &str) -> Self {
        Self::new(name, APP_IMAGE, Program::App(End::OnCommand))
    }

    /// An app that exits after a while.
    pub fn brief_app(name: &str, life: Duration, code: u8) -> Self {
        let end = End::After { life, code };
        Self::new(name, APP_IMAGE, Program::App(end))
    }

    /// An app that connects as soon as it runs.
    pub fn client(name: &str, client: Client) -> Self {
        Self::new(name, APP_IMAGE, Program::Client(client))
    }

    /// An app that responds to requests at a TCP port, and closes each connection. SIGTERM ends it.
    pub fn server(name: &str, port: u16) -> Self {
        let route = Route::any(Answer::Status(200), Effect::Stay);
        let mut listener = Listener::new(port, vec![route]);
        listener.place = Place::Everywhere;
        let server = Sidecar {
            listeners: vec![listener],
            signals: vec![(SIGTERM, Reaction::END)],
            ..Sidecar::default()
        };
        Self::new(name, APP_IMAGE, Program::Sidecar(server))
    }

    /// An app that holds sockets open.
    pub fn holding(name: &str, holding: Holding) -> Self {
        Self::new(name, APP_IMAGE, Program::Holding(holding))
    }

    /// A mesh's proxy that does the same, with the name and image of Istio's.
    pub fn holding_proxy(holding: Holding) -> Self {
        Self::new(ISTIO_PROXY, ISTIO_IMAGE, Program::Holding(holding))
            .args(&["proxy", "sidecar"])
            .user(Capture::PROXY)
    }

    /// An init container that creates a mesh's rules.
    pub fn capture(capture: Capture) -> Self {
        Self::new("istio-init", ISTIO_IMAGE, Program::Capture(capture))
    }

    /// An app below a wrapper that sends the quit request itself.
    pub fn wrapped_app(name: &str) -> Self {
        let program = Program::Wrapper {
            port: STATUS_PORT,
            app: End::OnCommand,
        };
        Self::new(name, APP_IMAGE, program)
    }

    /// An Istio sidecar with this behaviour of its status port. It has no admin
    /// port, and exits on SIGTERM with code 0.
    pub fn istio(manner: Manner) -> Self {
        let sidecar = Sidecar {
            listeners: vec![Listener::mannered(STATUS_PORT, manner)],
            signals: vec![(SIGTERM, Reaction::END)],
            ..Sidecar::default()
        };
        Self::sidecar(ISTIO_PROXY, ISTIO_IMAGE, sidecar)
            .args(&[
                "proxy",
                "sidecar",
                "--domain",
                "$(POD_NAMESPACE).svc.cluster.local",
                "--proxyLogLevel=warning",
                "--log_output_level=default:info",
            ])
            .env(
                "PROXY_CONFIG",
                "{\"discoveryAddress\":\"istiod.istio-system.svc:15012\"}\n",
            )
            .env("ISTIO_META_APP_CONTAINERS", "app")
            .env("TRUST_DOMAIN", "cluster.local")
    }

    /// The number of lines about listening that its processes print without a command.
    pub(crate) fn listeners_at_once(&self) -> usize {
        match &self.program {
            Program::Sidecar(sidecar) | Program::Shell(sidecar)
                if sidecar.listen == Listen::AtOnce =>
            {
                sidecar.listeners.len()
            }
            _ => 0,
        }
    }
}
