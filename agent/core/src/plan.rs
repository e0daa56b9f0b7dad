//! What is to be known of a pod before anything happens in it: which of its
//! containers are sidecars, how each of them is terminated, and the pod's overrides.
//!
//! It follows from the pod's spec, its Namespace, the configuration and the
//! versions that sidecars reported; it is rebuilt when one of these changes.

pub(crate) mod start;
pub mod version_query;

use std::{sync::Arc, time::Duration};

use self::start::PlannedStart;
use crate::{
    decision::NotApplicable,
    hold::{HeldPort, NotHeld},
    plan::version_query::VersionQueries,
    pod::{
        restart_policy::{RestartPolicy, RestartRule},
        spec::{Container, Pod},
    },
    recipe::{
        Identity, LadderStep, Order, Purpose, Recipe, Subject, local_held_ports, may_be_asked,
        step::{Signal, Step},
    },
    settings::{
        annotation,
        config::Config,
        overrides::{HoldKind, InvalidAnnotation, Named, NamespaceValues, Place, Tuning},
    },
};

/// Recipe of sidecars that a pod's annotation names.
const BY_ANNOTATION: &str = "annotation";

/// The plan for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub sidecars: Vec<Sidecar>,
    /// Held ports of containers that are no sidecars, as the pod declares them.
    pub(crate) declared: Vec<HeldPort>,
    /// Apps whose starts are to be held.
    pub(crate) starts: Vec<PlannedStart>,
    pub tuning: Tuning,
    pub(crate) bad: Vec<InvalidAnnotation>,
    /// Why there is nothing to do, where that is so.
    pub not_ours: Option<NotApplicable>,
    /// Why no connection waits in it, where that is so.
    pub not_held: Option<NotHeld>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    pub name: String,
    pub recipe: Arc<str>,
    pub order: Order,
    pub ladder: Vec<LadderStep>,
    /// How its version could be asked for, where the ladder may depend on it.
    pub(crate) question: Option<AskFor>,
    /// What becomes of it when it ends.
    pub(crate) policy: RestartPolicy,
    pub(crate) rules: Vec<RestartRule>,
    /// Where connections to it wait until it is ready.
    pub held_ports: Vec<HeldPort>,
    /// Who it is, where connections that it makes itself pass.
    pub identity: Identity,
}

/// A question for a sidecar's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskFor {
    /// The image that the answer is about.
    pub(crate) image: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) pointer: String,
}

impl Plan {
    pub fn of(
        pod: &Pod,
        config: &Config,
        namespace: &NamespaceValues,
        asked: &VersionQueries,
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
            .filter_map(|container| sidecar(pod, container, config, &tuning, asked))
            .collect();
        // A plan is kept, and most have one.
        sidecars.shrink_to_fit();
        let sidecar = |name: &str| sidecars.iter().any(|sidecar| sidecar.name == name);
        let declared = tuning.hold_ports.iter();
        let declared = declared.filter(|(name, _ports)| !sidecar(name));
        let declared = declared.flat_map(|(name, ports)| local_held_ports(name, ports));
        let declared = declared.filter(|held_port| pod.container(&held_port.sidecar).is_some());
        let mut plan = Self {
            declared: declared.collect(),
            starts: Vec::new(),
            sidecars,
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

    /// Where connections wait in this pod; of two held ports at one port the first.
    pub fn held_ports(&self) -> Vec<&HeldPort> {
        let mut held_ports: Vec<&HeldPort> = Vec::new();
        let sidecars = self.sidecars.iter().flat_map(|sidecar| &sidecar.held_ports);
        for held_port in sidecars.chain(&self.declared) {
            if held_ports.iter().all(|known| known.port != held_port.port) {
                held_ports.push(held_port);
            }
        }
        held_ports
    }

    /// Whether a regular container is an app.
    pub fn is_app(&self, name: &str) -> bool {
        !self.sidecars.iter().any(|sidecar| sidecar.name == name)
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
                (false, _) => NotHeld::NoHeldPort,
            });
        }
        let mut apps = pod.containers.iter();
        if !apps.any(|container| self.is_app(&container.name)) {
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
        let mut apps = pod
            .containers
            .iter()
            .filter(|container| self.is_app(&container.name))
            .peekable();
        if apps.peek().is_none() {
            return Some(NotApplicable::NoApp);
        }
        let mut endless = apps.filter(|app| pod.policy_of(app) == RestartPolicy::Always);
        endless.next().map(|app| NotApplicable::NeverFinishes {
            container: app.name.clone(),
        })
    }
}

fn sidecar(
    pod: &Pod,
    container: &Container,
    config: &Config,
    tuning: &Tuning,
    asked: &VersionQueries,
) -> Option<Sidecar> {
    let declared = tuning.hold_ports.get(&container.name);
    let plain = |recipe: &str, order, ladder, question| Sidecar {
        name: container.name.clone(),
        held_ports: declared
            .map_or_else(Vec::new, |ports| local_held_ports(&container.name, ports)),
        identity: Identity::default(),
        recipe: recipe.into(),
        order,
        ladder,
        question,
        policy: pod.policy_of(container),
        rules: container.restart_rules.clone(),
    };
    let mut sidecar = match tuning.named.get(&container.name) {
        Some(Named::App) => return None,
        Some(Named::Sidecar(step)) => {
            let ladder = by_annotation(pod, step);
            plain(BY_ANNOTATION, Order::Helper, ladder, None)
        }
        None => {
            let mut recipes = config.recipes.iter();
            let recipe = recipes.find(|recipe| recipe.recognises(pod, container))?;
            let (ladder, question) = by_recipe(pod, container, recipe, tuning, asked);
            let sidecar = plain(&recipe.name, recipe.order, ladder, question);
            let subject = subject(pod, container, asked);
            let captured = recipe.hold.captured.as_ref();
            let identity = captured.map(|captured| captured.identity(subject));
            Sidecar {
                held_ports: recipe.hold.held_ports(subject, tuning),
                identity: identity.unwrap_or_default(),
                ..sidecar
            }
        }
    };
    if config.ladder.kill {
        sidecar.ladder.push(LadderStep {
            step: Step::signal(Signal::Kill),
            purpose: Purpose::Quit,
            code: 137,
            takes: Duration::ZERO,
            advice: String::new(),
        });
    }
    Some(sidecar)
}

/// A container, with what is known of its version.
pub(crate) fn subject<'pod>(
    pod: &'pod Pod,
    container: &'pod Container,
    asked: &VersionQueries,
) -> Subject<'pod> {
    let tag = crate::pod::image::version(&container.image);
    let image = container.image_id.as_ref().unwrap_or(&container.image);
    Subject {
        pod,
        container,
        version: tag.or_else(|| asked.version(image)),
    }
}

/// The step that the pod names, and SIGTERM where that is a request.
fn by_annotation(pod: &Pod, step: &Step) -> Vec<LadderStep> {
    let term = Step::signal(Signal::Term);
    let steps = match step {
        Step::Request(_) if may_be_asked(pod) => vec![step.clone(), term],
        Step::Request(_) => vec![term],
        Step::Signal { .. } => vec![step.clone()],
    };
    let ladder_step = |step| LadderStep {
        step,
        purpose: Purpose::Quit,
        // The exit code is not known; the pod's author requested the step.
        code: 0,
        takes: Duration::ZERO,
        advice: String::new(),
    };
    steps.into_iter().map(ladder_step).collect()
}

fn by_recipe(
    pod: &Pod,
    container: &Container,
    recipe: &Recipe,
    tuning: &Tuning,
    asked: &VersionQueries,
) -> (Vec<LadderStep>, Option<AskFor>) {
    let tag = crate::pod::image::version(&container.image);
    let image = container.image_id.as_ref().unwrap_or(&container.image);
    let subject = subject(pod, container, asked);
    let question = recipe
        .question(subject)
        .filter(|_| tag.is_none())
        .map(|(port, question)| AskFor {
            image: image.clone(),
            port,
            path: question.path.clone(),
            pointer: question.pointer.clone(),
        });
    let drain = recipe.drain_step(subject, tuning.drain);
    let ladder = drain.into_iter().chain(recipe.quit_ladder(subject));
    (ladder.collect(), question)
}
