//! What is to be known of a pod before anything happens in it: which of its
//! containers are sidecars, how each of them is shown out, what was asked for.
//!
//! It follows from the pod's spec, its Namespace, the configuration and the
//! versions that sidecars told; it is made again when one of these changes.

use std::{sync::Arc, time::Duration};

use crate::{
    annotation,
    asked::Asked,
    config::Config,
    decision::NotOurs,
    pod::{Container, Pod},
    policy::{RestartPolicy, RestartRule},
    recipe::{Order, Purpose, Recipe, Rung, Subject, may_be_asked},
    step::{Signal, Step},
    tuning::{BadAnnotation, Named, NamespaceValues, Place, Tuning},
};

/// Recipe of sidecars that a pod's annotation names.
const BY_ANNOTATION: &str = "annotation";

/// The plan for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) sidecars: Vec<Sidecar>,
    pub(crate) tuning: Tuning,
    pub(crate) bad: Vec<BadAnnotation>,
    /// Why there is nothing to do, where that is so.
    pub(crate) not_ours: Option<NotOurs>,
}

/// One sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sidecar {
    /// Name of the container.
    pub(crate) name: String,
    pub(crate) recipe: Arc<str>,
    pub(crate) order: Order,
    pub(crate) ladder: Vec<Rung>,
    /// How its version could be asked for, where the ladder may depend on it.
    pub(crate) question: Option<AskFor>,
    /// What becomes of it when it ends.
    pub(crate) policy: RestartPolicy,
    pub(crate) rules: Vec<RestartRule>,
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
    pub(crate) fn of(
        pod: &Pod,
        config: &Config,
        namespace: &NamespaceValues,
        asked: &Asked,
    ) -> Self {
        let (tuning, mut bad) = Tuning::read(&config.defaults, namespace, &pod.annotations);
        let strangers = tuning.named.keys();
        let strangers = strangers.filter(|name| pod.container(name).is_none());
        bad.extend(strangers.map(|name| BadAnnotation {
            place: Place::Pod,
            key: annotation::SIDECARS,
            value: name.clone(),
            expected: "the name of a regular container of this pod",
        }));
        let sidecars: Vec<Sidecar> = pod
            .containers
            .iter()
            .filter_map(|container| sidecar(pod, container, config, &tuning, asked))
            .collect();
        let mut plan = Self {
            sidecars,
            tuning,
            bad,
            not_ours: None,
        };
        plan.not_ours = plan.why_not(pod, config);
        plan
    }

    /// Whether a regular container is an app.
    pub(crate) fn is_app(&self, name: &str) -> bool {
        !self.sidecars.iter().any(|sidecar| sidecar.name == name)
    }

    fn why_not(&self, pod: &Pod, config: &Config) -> Option<NotOurs> {
        if config.excluded_namespaces.contains(&pod.namespace) {
            return Some(NotOurs::ExcludedNamespace);
        }
        if self.sidecars.is_empty() {
            return Some(match pod.native_sidecars.as_slice() {
                [] => NotOurs::NoSidecar,
                names => NotOurs::NativeOnly {
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
            return Some(NotOurs::NoApp);
        }
        let mut endless = apps.filter(|app| pod.policy_of(app) == RestartPolicy::Always);
        endless.next().map(|app| NotOurs::NeverFinishes {
            container: app.name.clone(),
        })
    }
}

fn sidecar(
    pod: &Pod,
    container: &Container,
    config: &Config,
    tuning: &Tuning,
    asked: &Asked,
) -> Option<Sidecar> {
    let plain = |recipe: &str, order, ladder, question| Sidecar {
        name: container.name.clone(),
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
            plain(&recipe.name, recipe.order, ladder, question)
        }
    };
    if config.ladder.kill {
        sidecar.ladder.push(Rung {
            step: Step::signal(Signal::Kill),
            purpose: Purpose::Quit,
            code: 137,
            takes: Duration::ZERO,
            advice: String::new(),
        });
    }
    Some(sidecar)
}

/// The step that the pod names, and SIGTERM where that is a request.
fn by_annotation(pod: &Pod, step: &Step) -> Vec<Rung> {
    let term = Step::signal(Signal::Term);
    let steps = match step {
        Step::Request(_) if may_be_asked(pod) => vec![step.clone(), term],
        Step::Request(_) => vec![term],
        Step::Signal { .. } => vec![step.clone()],
    };
    let rung = |step| Rung {
        step,
        purpose: Purpose::Quit,
        // Nobody knows; its author named it to be ended.
        code: 0,
        takes: Duration::ZERO,
        advice: String::new(),
    };
    steps.into_iter().map(rung).collect()
}

fn by_recipe(
    pod: &Pod,
    container: &Container,
    recipe: &Recipe,
    tuning: &Tuning,
    asked: &Asked,
) -> (Vec<Rung>, Option<AskFor>) {
    let tag = crate::image::version(&container.image);
    let image = container.image_id.as_ref().unwrap_or(&container.image);
    let subject = Subject {
        pod,
        container,
        version: tag.or_else(|| asked.version(image)),
    };
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
