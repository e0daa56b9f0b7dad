//! The ports of a database proxy that listens on one for each of its instances, as Google's proxies do.
//!
//! An instance listens on its own port (`?port=`), else on the next port after the proxy's own port (`--port`), else on
//! the next port after the default of its database's engine. Only the proxy knows the engine, so all defaults are assumed.

use serde::{Deserialize, Deserializer, de::Error};

use crate::recipe::{Condition, OneOrMore, Pattern, Setting, Sources, Subject, subject::parameter};

/// Limit of the numbered variables of one name, for the instances after the first: `NAME_0` and so on.
const NUMBERED: usize = 16;

/// Instances that a proxy serves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Instances {
    /// Base names of the proxy's program: below a shell only its arguments count; empty for all words.
    #[serde(default)]
    pub program: Vec<Pattern>,
    /// Arguments that name an instance, without their parameters.
    pub words: Vec<Pattern>,
    /// Variables that name instances where no argument does, also with a number.
    #[serde(default)]
    env: Vec<String>,
    /// The port of the first instance without one of its own; 0 where the engine decides.
    pub port: Setting<u16>,
    /// The default ports of the engines.
    pub defaults: Vec<u16>,
    /// Parameters of an instance that listens on no port.
    #[serde(default)]
    pub sockets: Vec<String>,
    /// Where one of these holds, instances without a port of their own listen on none.
    #[serde(default)]
    pub unless: OneOrMore<Condition>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct InstancePorts {
    pub(super) known: Vec<u16>,
    pub(super) assumed: Vec<u16>,
    /// On how many of the assumed ports the proxy listens.
    pub(super) assumed_listeners: usize,
}

impl Instances {
    pub(super) fn ports(&self, subject: Subject<'_>) -> InstancePorts {
        let instances = self.instances(subject);
        let own_port = |instance: &&str| parameter(instance, "port")?.parse().ok();
        let mut known: Vec<u16> = instances.iter().filter_map(own_port).collect();
        let has_socket = |instance: &&str| {
            let mut sockets = self.sockets.iter();
            sockets.any(|name| parameter(instance, name).is_some())
        };
        let has_none = self.unless.0.iter().any(|one| one.holds(subject));
        let others = match instances.as_slice() {
            _ if has_none => 0,
            // The instances are in a file, or in a variable without a literal value.
            [] => 1,
            all => all
                .iter()
                .filter(|instance| own_port(instance).is_none() && !has_socket(instance))
                .count(),
        };
        // The pod sets `first`: the last port has no next one.
        let next_ports = |first: u16| (first..=u16::MAX).take(others);
        let firsts = match self.port.of(subject) {
            0 => &self.defaults[..],
            first => &[first],
        };
        let next: Vec<u16> = firsts.iter().copied().flat_map(next_ports).collect();
        if firsts.len() == 1 {
            known.extend(next);
            return InstancePorts {
                known,
                ..InstancePorts::default()
            };
        }
        InstancePorts {
            known,
            assumed: next,
            assumed_listeners: others,
        }
    }

    fn instances<'pod>(&self, subject: Subject<'pod>) -> Vec<&'pod str> {
        let is_instance = |word: &&str| {
            let name = word.split_once('?').map_or(*word, |(name, _)| name);
            // The kubelet or a shell replaces the variable.
            name.starts_with('$') || self.words.iter().any(|pattern| pattern.matches(name))
        };
        let is_program = |name: &str| {
            let mut programs = self.program.iter();
            self.program.is_empty() || programs.any(|program| program.matches(name))
        };
        let words: Vec<&str> = subject
            .words_of(is_program)
            .into_iter()
            .filter(is_instance)
            .collect();
        if !words.is_empty() {
            return words;
        }
        self.env
            .iter()
            .filter_map(|name| subject.env(name))
            .collect()
    }

    pub(super) fn sources(&self) -> Sources<'_> {
        Sources {
            annotations: &[],
            args: &[],
            env: &self.env,
        }
    }

    /// The variables that name instances, without those with a number.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.env.iter().step_by(NUMBERED + 1).map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Instances {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The derived function of the type, not that of the trait.
        let read = Self::deserialize(deserializer)?;
        if read.defaults.is_empty() {
            return Err(D::Error::custom(
                "instances need the defaults of their ports",
            ));
        }
        let env = read.env.into_iter().flat_map(|name| {
            let numbered = (0..NUMBERED).map(|number| format!("{name}_{number}"));
            [name.clone()]
                .into_iter()
                .chain(numbered.collect::<Vec<_>>())
        });
        Ok(Self {
            env: env.collect(),
            ..read
        })
    }
}
