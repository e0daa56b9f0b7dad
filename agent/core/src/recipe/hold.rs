//! The ports at which connections to a sidecar are held until it is ready.
//!
//! ```yaml
//! hold:
//!   captured:                 # what a mesh redirects to its proxy
//!     port: 15001
//!     users: [1337]
//!     ready:
//!       - get: {port: 15021, path: /healthz/ready}
//!   local: [5432]             # ports on loopback that apps connect to
//!   listed:                   # more of them, in a list that the pod has
//!     - {args: [-instances], after: "=tcp:"}
//!   when: {flag: --listen}    # optional, also unless
//! ```

mod instances;
mod port_list;

use std::collections::BTreeSet;

use serde::Deserialize;

pub use self::{instances::Instances, port_list::PortList};
use super::{Condition, OneOrMore, Setting, Sources, Subject};
use crate::{
    hold::{HeldPort, Probe},
    settings::overrides::Tuning,
};

/// Ports at which connections are held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HoldRecipe {
    pub captured: Option<Captured>,
    /// Ports on loopback that apps connect to. Each is released when the sidecar listens on it.
    pub local: Vec<Setting<u16>>,
    /// Ports on loopback that the pod lists.
    pub listed: Vec<PortList>,
    /// Ports on loopback of a database proxy, one for each instance.
    pub instances: Option<Instances>,
    /// Only where one of these holds; empty for everywhere.
    pub when: OneOrMore<Condition>,
    /// Not where one of these holds.
    pub unless: OneOrMore<Condition>,
}

/// Connections that a mesh redirects to its proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// The port that connections are redirected to.
    pub port: Setting<u16>,
    /// Users whose connections are the proxy's own, besides the one that the container's security context names.
    #[serde(default)]
    pub users: Vec<u32>,
    #[serde(default)]
    pub groups: Vec<u32>,
    pub dns: Option<Dns>,
    /// The mesh redirects only where one of these holds; empty for everywhere.
    #[serde(default)]
    pub when: OneOrMore<Condition>,
    /// It does not redirect where one of these holds.
    #[serde(default)]
    pub unless: OneOrMore<Condition>,
    /// The readiness probes of the proxy: the first that exists counts. Without one, the proxy is ready when it
    /// listens.
    #[serde(default)]
    pub ready: Vec<ReadyRecipe>,
}

/// Captured DNS queries.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// The UDP and TCP port that they are redirected to.
    pub port: Setting<u16>,
    /// They are redirected only where one of these holds; empty for everywhere.
    #[serde(default)]
    pub when: OneOrMore<Condition>,
    /// They are not redirected where one of these holds.
    #[serde(default)]
    pub unless: OneOrMore<Condition>,
}

/// A readiness probe of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyRecipe {
    /// The request; any status of 2xx means ready.
    pub get: Get,
    /// The port of the process that sends the response, where the proxy only forwards the request; 0 where it is off,
    /// so that no response ever arrives.
    pub backend: Option<Setting<u16>>,
    /// It exists only where one of these holds; empty for everywhere.
    #[serde(default)]
    pub when: OneOrMore<Condition>,
    /// It does not exist where one of these holds.
    #[serde(default)]
    pub unless: OneOrMore<Condition>,
}

/// A request without side effects.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Get {
    pub port: Setting<u16>,
    pub path: Setting<String>,
}

/// The user and group ids of a proxy's processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub users: Vec<u32>,
    pub(crate) groups: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct ContainerPorts {
    pub(crate) held_ports: Vec<HeldPort>,
    /// On how many of its assumed ports it will listen.
    pub(crate) assumed_listeners: usize,
}

impl HoldRecipe {
    pub(crate) fn container_ports(&self, subject: Subject<'_>, tuning: &Tuning) -> ContainerPorts {
        let name = &subject.container.name;
        let exists = Condition::permit(&self.when.0, &self.unless.0, subject);
        let mut held_ports = Vec::new();
        if let Some(captured) = self.captured.as_ref().filter(|_| exists) {
            held_ports.extend(captured.held_ports(subject));
        }
        let mut assumed_listeners = 1;
        if let Some(declared) = tuning.hold_ports.get(name) {
            held_ports.extend(declared_held_ports(name, declared));
        } else if exists {
            let mut known = Vec::new();
            let mut assumed = Vec::new();
            for setting in &self.local {
                match setting.set_by(subject) {
                    set if set.is_empty() => assumed.push(*setting.default()),
                    set => known.extend(set),
                }
            }
            known.extend(self.listed.iter().flat_map(|list| list.ports(subject)));
            if let Some(instances) = &self.instances {
                let ports = instances.ports(subject);
                known.extend(ports.known);
                assumed.extend(ports.assumed);
                assumed_listeners = ports.assumed_listeners.max(1);
            }
            held_ports.extend(local_held_ports(name, &known, false));
            assumed.retain(|port| !known.contains(port));
            held_ports.extend(local_held_ports(name, &assumed, true));
        }
        ContainerPorts {
            held_ports,
            assumed_listeners,
        }
    }

    /// The ports with a default that pods may change.
    pub fn ports(&self) -> impl Iterator<Item = &Setting<u16>> {
        let captured = self.captured.iter().flat_map(|captured| {
            let dns = captured.dns.iter().map(|dns| &dns.port);
            let ready = captured
                .ready
                .iter()
                .flat_map(|ready| [&ready.get.port].into_iter().chain(&ready.backend));
            [&captured.port].into_iter().chain(dns).chain(ready)
        });
        let instances = self.instances.iter().map(|instances| &instances.port);
        captured.chain(&self.local).chain(instances)
    }

    /// All sources of settings in a pod, besides those of conditions.
    pub(super) fn sources(&self) -> impl Iterator<Item = Sources<'_>> {
        let instances = self.instances.iter().map(Instances::sources);
        self.ports()
            .map(Setting::sources)
            .chain(self.listed.iter().map(PortList::sources))
            .chain(instances)
    }

    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let captured = self.captured.iter().flat_map(|captured| {
            let dns = captured
                .dns
                .iter()
                .flat_map(|dns| dns.when.0.iter().chain(&dns.unless.0));
            let ready = captured
                .ready
                .iter()
                .flat_map(|ready| ready.when.0.iter().chain(&ready.unless.0));
            let own = captured.when.0.iter().chain(&captured.unless.0);
            dns.chain(ready).chain(own)
        });
        let instances = self
            .instances
            .iter()
            .flat_map(|instances| &instances.unless.0);
        self.when
            .0
            .iter()
            .chain(&self.unless.0)
            .chain(captured)
            .chain(instances)
    }
}

/// Ports on loopback that the pod's annotation declares.
pub(crate) fn declared_held_ports(sidecar: &str, ports: &[u16]) -> Vec<HeldPort> {
    local_held_ports(sidecar, ports, false)
}

/// Held ports on loopback, each once; 0 is none.
fn local_held_ports(sidecar: &str, ports: &[u16], is_assumed: bool) -> Vec<HeldPort> {
    let mut seen = BTreeSet::new();
    ports
        .iter()
        .filter(|port| **port != 0 && seen.insert(**port))
        .map(|port| HeldPort {
            sidecar: sidecar.to_owned(),
            port: *port,
            dns: false,
            probe: Probe::Listens { port: *port },
            captured: None,
            is_assumed,
        })
        .collect()
}

impl Captured {
    fn held_ports(&self, subject: Subject<'_>) -> Vec<HeldPort> {
        let port = self.port.of(subject);
        if port == 0 || !Condition::permit(&self.when.0, &self.unless.0, subject) {
            return Vec::new();
        }
        let ready = self.ready.iter().find_map(|ready| ready.probe(subject));
        let dns = self.dns.as_ref().and_then(|dns| dns.port_for(subject));
        [Some((port, false)), dns.map(|port| (port, true))]
            .into_iter()
            .flatten()
            .map(|(own, dns)| HeldPort {
                sidecar: subject.container.name.clone(),
                port: own,
                dns,
                probe: ready.clone().unwrap_or(Probe::Listens { port: own }),
                captured: Some(port),
                is_assumed: false,
            })
            .collect()
    }

    /// The ids that identify the proxy. Root identifies no proxy: apps run as root as well. Nor does a user or group
    /// of the pod, which the apps inherit like the proxy.
    pub(crate) fn identity(&self, subject: Subject<'_>) -> Identity {
        let ids = |known: &[u32], own: Option<u32>| {
            let mut ids: Vec<u32> = known.iter().copied().chain(own).collect();
            ids.retain(|id| *id != 0);
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        Identity {
            users: ids(&self.users, subject.container.own_user),
            groups: ids(&self.groups, subject.container.own_group),
        }
    }
}

impl Dns {
    fn port_for(&self, subject: Subject<'_>) -> Option<u16> {
        Condition::permit(&self.when.0, &self.unless.0, subject)
            .then(|| self.port.of(subject))
            .filter(|port| *port != 0)
    }
}

impl ReadyRecipe {
    fn probe(&self, subject: Subject<'_>) -> Option<Probe> {
        let answers = |backend: &Setting<u16>| backend.of(subject) != 0;
        if !Condition::permit(&self.when.0, &self.unless.0, subject)
            || !self.backend.as_ref().is_none_or(answers)
        {
            return None;
        }
        let port = self.get.port.of(subject);
        let path = self.get.path.of(subject);
        (port != 0).then_some(Probe::Answers { port, path })
    }
}
