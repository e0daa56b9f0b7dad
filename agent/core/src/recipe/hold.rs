//! Where connections to a sidecar wait until it is ready.
//!
//! ```yaml
//! hold:
//!   captured:                 # what a mesh redirects to its proxy
//!     port: 15001
//!     users: [1337]
//!     ready:
//!       - get: {port: 15021, path: /healthz/ready}
//!   local: [5432]             # ports on loopback that apps connect to
//!   when: {flag: --listen}    # optional
//! ```

use serde::Deserialize;

use super::{Condition, OneOrMore, Setting, Subject};
use crate::{
    hold::{HeldPort, Probe},
    settings::overrides::Tuning,
};

/// Ports at which connections wait.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HoldRecipe {
    /// Connections that the mesh redirects to its proxy.
    pub captured: Option<Captured>,
    /// Ports on loopback that apps connect to. Each opens when the sidecar
    /// listens at it.
    pub local: Vec<Setting<u16>>,
    /// Only where one of these holds; empty for everywhere.
    pub when: OneOrMore<Condition>,
}

/// What a mesh redirects to its proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// The port that connections are redirected to.
    pub port: Setting<u16>,
    /// Users whose connections are the proxy's own, besides the one that the
    /// container's security context names.
    #[serde(default)]
    pub users: Vec<u32>,
    #[serde(default)]
    pub groups: Vec<u32>,
    pub dns: Option<Dns>,
    /// How the proxy says that it is ready: the first way that exists counts,
    /// and where there is none it is ready when it listens.
    #[serde(default)]
    pub ready: Vec<ReadyRecipe>,
}

/// Captured DNS queries.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// The UDP and TCP port that they are redirected to.
    pub port: Setting<u16>,
    /// They are redirected only where one of these holds.
    pub when: OneOrMore<Condition>,
}

/// One way to ask whether a proxy is ready.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyRecipe {
    /// The request; any status of 2xx means ready.
    pub get: Get,
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

/// Who is the proxy, by its processes' ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub users: Vec<u32>,
    pub(crate) groups: Vec<u32>,
}

impl HoldRecipe {
    /// The held ports of one container.
    pub(crate) fn held_ports(&self, subject: Subject<'_>, tuning: &Tuning) -> Vec<HeldPort> {
        let name = &subject.container.name;
        let mut when = self.when.0.iter();
        let exists = self.when.0.is_empty() || when.any(|condition| condition.holds(subject));
        let mut held_ports = Vec::new();
        if let Some(captured) = self.captured.as_ref().filter(|_| exists) {
            held_ports.extend(captured.held_ports(subject));
        }
        let declared = tuning.hold_ports.get(name);
        let local = declared.cloned().unwrap_or_else(|| {
            let settings = self.local.iter().filter(|_| exists);
            settings
                .flat_map(|setting| setting.all_of(subject))
                .collect()
        });
        held_ports.extend(local_held_ports(name, &local));
        held_ports
    }

    /// Everything in it that pods may change.
    pub fn ports(&self) -> impl Iterator<Item = &Setting<u16>> {
        let captured = self.captured.iter().flat_map(|captured| {
            let dns = captured.dns.iter().map(|dns| &dns.port);
            let ready = captured.ready.iter().map(|ready| &ready.get.port);
            [&captured.port].into_iter().chain(dns).chain(ready)
        });
        captured.chain(&self.local)
    }

    pub(super) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let captured = self.captured.iter().flat_map(|captured| {
            let dns = captured.dns.iter().flat_map(|dns| &dns.when.0);
            let ready = captured.ready.iter();
            dns.chain(ready.flat_map(|ready| ready.when.0.iter().chain(&ready.unless.0)))
        });
        self.when.0.iter().chain(captured)
    }
}

/// Held ports at ports on loopback; 0 is none.
pub(crate) fn local_held_ports(sidecar: &str, ports: &[u16]) -> Vec<HeldPort> {
    let ports = ports.iter().filter(|port| **port != 0);
    ports
        .map(|port| HeldPort {
            sidecar: sidecar.to_owned(),
            port: *port,
            dns: false,
            probe: Probe::Listens { port: *port },
        })
        .collect()
}

impl Captured {
    fn held_ports(&self, subject: Subject<'_>) -> Vec<HeldPort> {
        let port = self.port.of(subject);
        if port == 0 {
            return Vec::new();
        }
        let ready = self.ready.iter().find_map(|ready| ready.probe(subject));
        let probe = ready.unwrap_or(Probe::Listens { port });
        let dns = self.dns.as_ref().and_then(|dns| dns.port_for(subject));
        let held_ports = [Some((port, false)), dns.map(|port| (port, true))];
        let held_ports = held_ports.into_iter().flatten();
        held_ports
            .map(|(port, dns)| HeldPort {
                sidecar: subject.container.name.clone(),
                port,
                dns,
                probe: probe.clone(),
            })
            .collect()
    }

    /// Who the proxy is. Root identifies no proxy: apps run as root as well.
    pub(crate) fn identity(&self, subject: Subject<'_>) -> Identity {
        let ids = |known: &[u32], own: Option<u32>| {
            let mut ids: Vec<u32> = known.iter().copied().chain(own).collect();
            ids.retain(|id| *id != 0);
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        Identity {
            users: ids(&self.users, subject.container.user),
            groups: ids(&self.groups, subject.container.group),
        }
    }
}

impl Dns {
    fn port_for(&self, subject: Subject<'_>) -> Option<u16> {
        let mut when = self.when.0.iter();
        let captured = when.any(|condition| condition.holds(subject));
        captured
            .then(|| self.port.of(subject))
            .filter(|port| *port != 0)
    }
}

impl ReadyRecipe {
    fn probe(&self, subject: Subject<'_>) -> Option<Probe> {
        let holds = |condition: &Condition| condition.holds(subject);
        let when = &self.when.0;
        if !(when.is_empty() || when.iter().any(holds)) || self.unless.0.iter().any(holds) {
            return None;
        }
        let port = self.get.port.of(subject);
        let path = self.get.path.of(subject);
        (port != 0).then_some(Probe::Answers { port, path })
    }
}
