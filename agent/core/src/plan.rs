//! The plan of a pod: which of its containers are sidecars, how each of them is terminated, and the pod's overrides.
//!
//! It follows from the pod's spec, its Namespace, the configuration and the
//! versions that sidecars reported; it is rebuilt when one of these changes.

mod port_limit;
mod sidecar;
pub(crate) mod start;
pub mod version_query;

use std::{collections::BTreeMap, sync::Arc};

pub use self::sidecar::Sidecar;
pub(crate) use self::sidecar::{SHORTEST_RESERVE, subject};
use self::start::PlannedStart;
use crate::{
    decision::NotApplicable,
    hold::{HeldPort, NotHeld},
    plan::version_query::VersionQueries,
    pod::{
        restart_policy::RestartPolicy,
        spec::{Container, Pod},
    },
    recipe::{Stage, declared_held_ports},
    settings::{
        annotation,
        config::Config,
        overrides::{HoldKind, InvalidAnnotation, NamespaceValues, Place, Tuning},
    },
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub sidecars: Vec<Sidecar>,
    /// Containers that exit after the others have ended: usher neither waits for them nor terminates them.
    pub self_ending: Vec<SelfEnding>,
    /// Held ports that the pod declares for containers that are not sidecars.
    pub(crate) declared: Vec<HeldPort>,
    /// How many more ports are not held, because a pod has too many.
    pub(crate) omitted_ports: usize,
    pub(crate) starts: Vec<PlannedStart>,
    pub tuning: Tuning,
    pub(crate) bad: Vec<InvalidAnnotation>,
    /// Why usher has nothing to do, if so.
    pub not_ours: Option<NotApplicable>,
    pub not_held: Option<NotHeld>,
}

/// A container that exits once the other containers of its pod have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfEnding {
    pub name: String,
    pub recipe: Arc<str>,
}

impl Plan {
    pub fn of(
        pod: &Pod,
        config: &Config,
        namespace: &NamespaceValues,
        versions: &VersionQueries,
    ) -> Self {
        let (tuning, mut bad) = Tuning::read(&config.defaults, namespace, &pod.annotations);
        let sidecars = tuning.named.keys().map(|name| (annotation::SIDECARS, name));
        let ports = tuning.hold_ports.keys();
        let ports = ports.map(|name| (annotation::HOLD_PORTS, name));
        let strangers = sidecars.chain(ports);
        let strangers = strangers.filter(|(_key, name)| pod.container(name).is_none());
        bad.extend(strangers.map(|(key, name)| InvalidAnnotation {
            place: Place::Pod,
            key,
            value: name.clone(),
            expected: "the name of a regular container of this pod",
        }));
        let mut sidecars: Vec<Sidecar> = pod
            .containers
            .iter()
            .filter_map(|container| sidecar::sidecar(pod, container, config, &tuning, versions))
            .collect();
        let self_ending = self_ending(pod, config, &tuning);
        keep_work(pod, &tuning, &self_ending, &mut sidecars);
        let is_sidecar = |name: &str| sidecars.iter().any(|sidecar| sidecar.name == name);
        let mut declared: Vec<HeldPort> = tuning
            .hold_ports
            .iter()
            .filter(|(name, _ports)| !is_sidecar(name) && pod.container(name).is_some())
            .flat_map(|(name, ports)| declared_held_ports(name, ports))
            .collect();
        keep_own_ports(&mut sidecars);
        let omitted_ports = port_limit::limit(&mut sidecars, &mut declared);
        // The plan stays in memory, and most plans have one sidecar.
        sidecars.shrink_to_fit();
        let mut plan = Self {
            declared,
            omitted_ports,
            starts: Vec::new(),
            sidecars,
            self_ending,
            tuning,
            bad,
            not_ours: None,
            not_held: None,
        };
        plan.not_ours = plan.why_not(pod, config);
        plan.not_held = plan.why_not_held(pod, config);
        if plan.not_held.is_none() && plan.tuning.hold == HoldKind::Start {
            plan.starts = start::starts(pod, &plan);
        }
        plan
    }

    /// The held ports of this pod; of several with one port number the first.
    pub fn held_ports(&self) -> Vec<&HeldPort> {
        let mut held_ports: Vec<&HeldPort> = Vec::new();
        for held_port in self.claims() {
            if held_ports.iter().all(|known| known.port != held_port.port) {
                held_ports.push(held_port);
            }
        }
        held_ports
    }

    /// All held ports. Several sidecars may claim one port, on which only one of them listens.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &HeldPort> {
        self.sidecars
            .iter()
            .flat_map(|sidecar| &sidecar.held_ports)
            .chain(&self.declared)
    }

    /// Whether a regular container is an app.
    pub fn is_app(&self, name: &str) -> bool {
        !self.sidecars.iter().any(|sidecar| sidecar.name == name) && !self.ends_by_itself(name)
    }

    pub(crate) fn apps<'pod>(&self, pod: &'pod Pod) -> impl Iterator<Item = &'pod Container> {
        let containers = pod.containers.iter();
        containers.filter(|container| self.is_app(&container.name))
    }

    /// Whether a regular container exits once the others have ended.
    pub fn ends_by_itself(&self, name: &str) -> bool {
        self.self_ending
            .iter()
            .any(|container| container.name == name)
    }

    fn why_not_held(&self, pod: &Pod, config: &Config) -> Option<NotHeld> {
        if config.excluded_namespaces.contains(&pod.namespace) {
            return Some(NotHeld::ExcludedNamespace);
        }
        if pod.host_network {
            return Some(NotHeld::HostNetwork);
        }
        if self.held_ports().is_empty() {
            let names = pod.native_sidecars.clone();
            return Some(match (self.sidecars.is_empty(), names.is_empty()) {
                (true, false) => NotHeld::NativeOnly { names },
                (true, true) => NotHeld::NoSidecar,
                (false, _) => match self.omitted_ports {
                    0 => NotHeld::NoHeldPort,
                    ports => NotHeld::TooManyPorts { ports },
                },
            });
        }
        if self.apps(pod).next().is_none() {
            return Some(NotHeld::NoApp);
        }
        (self.tuning.hold == HoldKind::No).then_some(NotHeld::OptedOut)
    }

    fn why_not(&self, pod: &Pod, config: &Config) -> Option<NotApplicable> {
        if config.excluded_namespaces.contains(&pod.namespace) {
            return Some(NotApplicable::ExcludedNamespace);
        }
        if self.sidecars.is_empty() {
            return Some(match pod.native_sidecars.as_slice() {
                [] => NotApplicable::NoSidecar,
                names => NotApplicable::NativeOnly {
                    names: names.to_vec(),
                },
            });
        }
        let mut apps = self.apps(pod).peekable();
        if apps.peek().is_none() {
            return Some(NotApplicable::NoApp);
        }
        let mut endless = apps.filter(|app| pod.policy_of(app) == RestartPolicy::Always);
        endless.next().map(|app| NotApplicable::NeverFinishes {
            container: app.name.clone(),
        })
    }
}

fn self_ending(pod: &Pod, config: &Config, tuning: &Tuning) -> Vec<SelfEnding> {
    let recipe = |container: &Container| {
        sidecar::recipe_of(pod, container, config).filter(|recipe| recipe.ends_by_itself)
    };
    pod.containers
        .iter()
        .filter(|container| !tuning.named.contains_key(&container.name))
        .filter_map(|container| {
            Some(SelfEnding {
                name: container.name.clone(),
                recipe: recipe(container)?.name.as_str().into(),
            })
        })
        .collect()
}

/// In a pod without an app, some sidecars are its workload, and thus apps: the log shippers, as in the drainer Jobs
/// of the logging operator, or else the helpers, as in a Deployment of a database proxy. A mesh proxy never is.
fn keep_work(pod: &Pod, tuning: &Tuning, self_ending: &[SelfEnding], sidecars: &mut Vec<Sidecar>) {
    let serves = |container: &Container| {
        let mut sidecars = sidecars.iter().map(|sidecar| &sidecar.name);
        let mut self_ending = self_ending.iter().map(|container| &container.name);
        sidecars.any(|name| *name == container.name)
            || self_ending.any(|name| *name == container.name)
    };
    if !pod.containers.iter().all(serves) {
        return;
    }
    let is_named = |sidecar: &Sidecar| tuning.named.contains_key(&sidecar.name);
    let has = |stage: Stage| {
        let mut sidecars = sidecars.iter();
        sidecars.any(|sidecar| sidecar.stage == stage && !is_named(sidecar))
    };
    let work = [Stage::Logs, Stage::Helper]
        .into_iter()
        .find(|stage| has(*stage));
    sidecars.retain(|sidecar| Some(sidecar.stage) != work || is_named(sidecar));
}

/// A port on which one sidecar is known to listen is not an assumed port of another one.
fn keep_own_ports(sidecars: &mut [Sidecar]) {
    // By port number; None where several sidecars are known to listen on it.
    let mut owners: BTreeMap<u16, Option<String>> = BTreeMap::new();
    let claims = sidecars.iter().flat_map(|sidecar| &sidecar.held_ports);
    for known in claims.filter(|held_port| !held_port.is_assumed) {
        let owner = owners.entry(known.port);
        let owner = owner.or_insert_with(|| Some(known.sidecar.clone()));
        if owner.as_ref() != Some(&known.sidecar) {
            *owner = None;
        }
    }
    for sidecar in sidecars {
        sidecar.held_ports.retain(|held_port| {
            let owner = owners.get(&held_port.port);
            !held_port.is_assumed
                || owner.is_none_or(|owner| owner.as_ref() == Some(&held_port.sidecar))
        });
    }
}
