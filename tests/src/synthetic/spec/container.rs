//! Containers to be.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::synthetic::spec::{Probe, RestartPolicy, RestartRule};
use crate::synthetic::wire::{
    Capture, Client, End, Entry, Holding, Listen, Listener, Manner, Pace, Program, Reaction, Shape,
    Sidecar,
};

/// Name of Istio's sidecar container.
pub const ISTIO_PROXY: &str = "istio-proxy";
/// pilot-agent's status port.
pub const STATUS_PORT: u16 = 15020;
/// Envoy's admin port below pilot-agent.
pub const ADMIN_PORT: u16 = 15000;
const ISTIO_IMAGE: &str = "registry.example/istio/proxyv2:1.26.2";
const APP_IMAGE: &str = "registry.example/team/report:7.4.1";
const SIGTERM: i32 = 15;

/// A container to be.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// Unique in the pod.
    pub name: String,
    /// By which recipes recognise sidecars.
    pub image: String,
    /// Instead of the image's.
    pub command: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment.
    pub env: Vec<Variable>,
    /// Its own restart policy, instead of the pod's.
    pub restart_policy: Option<RestartPolicy>,
    /// Its own rules, which come before any policy.
    pub restart_rules: Vec<RestartRule>,
    /// Its user and group; None is root.
    pub user: Option<u32>,
    /// What its process does.
    pub program: Program,
    /// False: created by [`Pod::start`](crate::synthetic::Pod::start) only.
    pub at_once: bool,
    /// Delays of its creation and removal; None is the node's.
    pub pace: Option<Pace>,
    /// Where its first program lies, on a node with bundles.
    pub entry: Entry,
    /// What is unusual about its bundle.
    pub shape: Shape,
    /// The probes that the kubelet runs. The stand-in runs none.
    pub probes: Vec<Probe>,
    /// More fields of its spec, as the kubelet serves them. No component acts on them.
    pub fields: BTreeMap<String, Value>,
    /// The kubelet shows it as not ready, whatever it does.
    pub unready: bool,
}

/// A variable of a container's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The spec refers to a Secret instead of having the value.
    pub secret: bool,
}

impl ContainerSpec {
    /// A container with this program.
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

    /// A sidecar.
    pub fn sidecar(name: &str, image: &str, sidecar: Sidecar) -> Self {
        Self::new(name, image, Program::Sidecar(sidecar))
    }

    /// An app that exits on command.
    pub fn app(name: &str) -> Self {
        Self::new(name, APP_IMAGE, Program::App(End::OnCommand))
    }

    /// An app that ends by itself.
    pub fn brief_app(name: &str, life: Duration, code: u8) -> Self {
        let end = End::After { life, code };
        Self::new(name, APP_IMAGE, Program::App(end))
    }

    /// An app that connects as soon as it runs.
    pub fn client(name: &str, client: Client) -> Self {
        Self::new(name, APP_IMAGE, Program::Client(client))
    }

    /// An app that holds sockets open.
    pub fn holding(name: &str, holding: Holding) -> Self {
        Self::new(name, APP_IMAGE, Program::Holding(holding))
    }

    /// A mesh's proxy that does the same, as Istio's is called and recognised.
    pub fn holding_proxy(holding: Holding) -> Self {
        Self::new(ISTIO_PROXY, ISTIO_IMAGE, Program::Holding(holding))
            .args(&["proxy", "sidecar"])
            .user(Capture::PROXY)
    }

    /// An init container that makes a mesh's rules.
    pub fn capture(capture: Capture) -> Self {
        Self::new("istio-init", ISTIO_IMAGE, Program::Capture(capture))
    }

    /// An app below a wrapper that asks the sidecar itself.
    pub fn wrapped_app(name: &str) -> Self {
        let program = Program::Wrapper {
            port: STATUS_PORT,
            app: End::OnCommand,
        };
        Self::new(name, APP_IMAGE, program)
    }

    /// An Istio sidecar whose status port behaves like this. It has no admin
    /// port, and SIGTERM ends it with code 0.
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

    /// The sidecar's admin port behaves like this.
    #[must_use]
    pub fn admin(self, manner: Manner) -> Self {
        self.listener(Listener::mannered(ADMIN_PORT, manner))
    }

    /// The sidecar has this listener, too.
    #[must_use]
    pub fn listener(mut self, listener: Listener) -> Self {
        self.program_of_sidecar().listeners.push(listener);
        self
    }

    /// The sidecar refuses connections until the command `listen`.
    #[must_use]
    pub fn refusing(self) -> Self {
        self.listening(Listen::OnCommand)
    }

    /// The sidecar listens then.
    #[must_use]
    pub fn listening(mut self, listen: Listen) -> Self {
        self.program_of_sidecar().listen = listen;
        self
    }

    /// The sidecar does not end on SIGTERM.
    #[must_use]
    pub fn deaf_to_term(mut self) -> Self {
        self.program_of_sidecar().signals = vec![(SIGTERM, Reaction::Stay)];
        self
    }

    /// With this command instead of the image's.
    #[must_use]
    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// With these arguments.
    #[must_use]
    pub fn args(mut self, words: &[&str]) -> Self {
        self.args = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// With one more variable.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        self.variable(name, value, false)
    }

    /// With one more variable, whose value only the process has.
    #[must_use]
    pub fn secret_env(self, name: &str, value: &str) -> Self {
        self.variable(name, value, true)
    }

    /// With this field in its spec, as the kubelet shows it.
    #[must_use]
    pub fn field(mut self, key: &str, value: Value) -> Self {
        self.fields.insert(key.to_owned(), value);
        self
    }

    /// Shown as not ready.
    #[must_use]
    pub const fn unready(mut self) -> Self {
        self.unready = true;
        self
    }

    /// As this user and group.
    #[must_use]
    pub const fn user(mut self, id: u32) -> Self {
        self.user = Some(id);
        self
    }

    /// With a restart policy of its own.
    #[must_use]
    pub const fn own_policy(mut self, policy: RestartPolicy) -> Self {
        self.restart_policy = Some(policy);
        self
    }

    /// With one more restart rule.
    #[must_use]
    pub fn rule(mut self, rule: RestartRule) -> Self {
        self.restart_rules.push(rule);
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
        self.pace = Some(pace);
        self
    }

    /// How many lines about listening its processes say by themselves.
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

    fn variable(mut self, name: &str, value: &str, secret: bool) -> Self {
        self.env.push(Variable {
            name: name.to_owned(),
            value: value.to_owned(),
            secret,
        });
        self
    }

    fn program_of_sidecar(&mut self) -> &mut Sidecar {
        match &mut self.program {
            Program::Sidecar(sidecar) => sidecar,
            other => panic!("{} is no sidecar: {other:?}", self.name),
        }
    }
}
