//! The settings of a requested container, added to its constructors.

use serde_json::Value;

use super::{ADMIN_PORT, ContainerSpec, SIGTERM, Variable};
use crate::synthetic::spec::{Probe, RestartPolicy, RestartRule};
use crate::synthetic::wire::{
    ConfigText, Entry, Listen, Listener, Manner, Pace, Program, Reaction, Root, Sidecar,
};

impl ContainerSpec {
    /// Sets the behaviour of the sidecar's admin port.
    #[must_use]
    pub fn admin(self, manner: Manner) -> Self {
        self.listener(Listener::mannered(ADMIN_PORT, manner))
    }

    /// Adds a listener to the sidecar.
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

    /// Sets when the sidecar starts to listen.
    #[must_use]
    pub fn listening(mut self, listen: Listen) -> Self {
        self.program_of_sidecar().listen = listen;
        self
    }

    /// The sidecar ignores SIGTERM.
    #[must_use]
    pub fn deaf_to_term(mut self) -> Self {
        self.program_of_sidecar().signals = vec![(SIGTERM, Reaction::Stay)];
        self
    }

    /// Sets the command instead of the image's.
    #[must_use]
    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args(mut self, words: &[&str]) -> Self {
        self.args = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        self.variable(name, value, false)
    }

    /// Adds a variable with a value that only the process has.
    #[must_use]
    pub fn secret_env(self, name: &str, value: &str) -> Self {
        self.variable(name, value, true)
    }

    /// Adds a field to its spec, as the kubelet serves it.
    #[must_use]
    pub fn field(mut self, key: &str, value: Value) -> Self {
        self.fields.insert(key.to_owned(), value);
        self
    }

    /// Reports it as not ready.
    #[must_use]
    pub const fn unready(mut self) -> Self {
        self.unready = true;
        self
    }

    /// Sets its user and group.
    #[must_use]
    pub const fn user(mut self, id: u32) -> Self {
        self.user = Some(id);
        self
    }

    #[must_use]
    pub const fn own_policy(mut self, policy: RestartPolicy) -> Self {
        self.restart_policy = Some(policy);
        self
    }

    #[must_use]
    pub fn rule(mut self, rule: RestartRule) -> Self {
        self.restart_rules.push(rule);
        self
    }

    /// Does not create it with the pod.
    #[must_use]
    pub const fn later(mut self) -> Self {
        self.at_once = false;
        self
    }

    /// Sets its delays.
    #[must_use]
    pub const fn pace(mut self, pace: Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    #[must_use]
    pub fn probe(mut self, probe: Probe) -> Self {
        self.probes.push(probe);
        self
    }

    /// Sets the location of its first program.
    #[must_use]
    pub const fn entry(mut self, entry: Entry) -> Self {
        self.entry = entry;
        self
    }

    /// Sets the text of its `config.json`.
    #[must_use]
    pub const fn config(mut self, config: ConfigText) -> Self {
        self.shape.config = config;
        self
    }

    /// Sets what is mounted as its root.
    #[must_use]
    pub const fn root(mut self, root: Root) -> Self {
        self.shape.root = root;
        self
    }

    /// Makes its bundle a symbolic link.
    #[must_use]
    pub const fn linked(mut self) -> Self {
        self.shape.linked = true;
        self
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
