//! One sidecar of a pod: its recipe, its ladder, its held ports.

use std::{sync::Arc, time::Duration};

use crate::{
    decision::LeftToKubelet,
    hold::{HeldPort, Probe},
    plan::version_query::{VersionQueries, VersionRequest},
    pod::{
        restart_policy::{RestartPolicy, RestartRule},
        spec::{Container, Pod},
    },
    recipe::{
        ExitCode, Identity, LadderStep, Linger, Purpose, Recipe, Stage, Subject,
        declared_held_ports, may_have_requests,
        step::{Request, Signal, Step},
    },
    settings::{
        config::Config,
        overrides::{Named, Tuning},
    },
};

/// The shortest part of the grace period that is reserved for a sidecar.
pub(crate) const SHORTEST_RESERVE: Duration = Duration::from_secs(2);

/// Recipe name of sidecars that a pod's annotation declares.
const BY_ANNOTATION: &str = "annotation";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    pub name: String,
    pub recipe: Arc<str>,
    pub stage: Stage,
    pub ladder: Vec<LadderStep>,
    /// The steps after SIGTERM, when the pod is deleted; the reason where it has none.
    pub(crate) after_term: Result<Vec<LadderStep>, LeftToKubelet>,
    /// The query for its version, where the ladder may depend on it.
    pub(crate) version_query: Option<VersionQuery>,
    /// Its effective restart policy.
    pub(crate) policy: RestartPolicy,
    pub(crate) rules: Vec<RestartRule>,
    pub held_ports: Vec<HeldPort>,
    /// On how many of its assumed ports it will listen.
    pub(crate) assumed_listeners: usize,
    /// The users and groups of its processes, whose own connections pass.
    pub identity: Identity,
    pub(crate) linger: Linger,
    /// Drains its inbound connections while it lingers.
    pub(crate) drain: Option<Request>,
}

impl Sidecar {
    /// The part of the grace period that it needs after its stop signal.
    pub(crate) fn reserve(&self) -> Duration {
        let signals = self
            .ladder
            .iter()
            .filter(|step| matches!(step.step, Step::Signal { .. }));
        let takes = signals.map(|step| step.takes).max().unwrap_or_default();
        SHORTEST_RESERVE.saturating_add(takes)
    }

    /// Ports of its own interface: those that its recipe sends requests to. Some are listed twice.
    pub(crate) fn status_ports(&self) -> impl Iterator<Item = u16> {
        let after_term = self.after_term.iter().flatten();
        let steps = self.ladder.iter().chain(after_term);
        let steps = steps.filter_map(|step| match &step.step {
            Step::Request(request) => Some(request.port),
            Step::Signal { .. } => None,
        });
        let probes = self.held_ports.iter();
        let probes = probes.filter_map(|held_port| match held_port.probe {
            Probe::Answers { port, .. } => Some(port),
            Probe::Listens { .. } => None,
        });
        let version_query = self
            .version_query
            .as_ref()
            .map(|version_query| version_query.request.port);
        steps.chain(probes).chain(version_query)
    }
}

/// A query for a sidecar's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionQuery {
    /// The image to which the reply applies.
    pub(crate) image: String,
    pub(crate) request: VersionRequest,
}

/// The sidecar for a container, if it is one.
pub(super) fn sidecar(
    pod: &Pod,
    container: &Container,
    config: &Config,
    tuning: &Tuning,
    versions: &VersionQueries,
) -> Option<Sidecar> {
    let declared = tuning.hold_ports.get(&container.name);
    let plain = |recipe: &str, stage, ladder, version_query| Sidecar {
        name: container.name.clone(),
        held_ports: declared.map_or_else(Vec::new, |ports| {
            declared_held_ports(&container.name, ports)
        }),
        assumed_listeners: 1,
        identity: Identity::default(),
        linger: Linger::Yes,
        drain: None,
        recipe: recipe.into(),
        stage,
        ladder,
        after_term: Err(LeftToKubelet::NoStep),
        version_query,
        policy: pod.policy_of(container),
        rules: container.restart_rules.clone(),
    };
    let mut sidecar = match tuning.named.get(&container.name) {
        Some(Named::App) => return None,
        Some(Named::Sidecar(step)) => {
            let ladder = by_annotation(pod, step);
            plain(BY_ANNOTATION, Stage::Helper, ladder, None)
        }
        None => {
            let recipe =
                recipe_of(pod, container, config).filter(|recipe| !recipe.ends_by_itself)?;
            let (ladder, version_query) = by_recipe(pod, container, recipe, tuning, versions);
            let sidecar = plain(&recipe.name, recipe.stage, ladder, version_query);
            let subject = subject(pod, container, versions);
            let captured = recipe.hold.captured.as_ref();
            let identity = captured.map(|captured| captured.identity(subject));
            let ports = recipe.hold.container_ports(subject, tuning);
            let after_term = match recipe.stage {
                Stage::Logs => Err(LeftToKubelet::Flushes),
                Stage::Helper | Stage::Mesh => recipe.after_term_ladder(subject),
            };
            Sidecar {
                after_term,
                held_ports: ports.held_ports,
                assumed_listeners: ports.assumed_listeners,
                identity: identity.unwrap_or_default(),
                linger: recipe.linger,
                drain: recipe.drain_request(subject),
                ..sidecar
            }
        }
    };
    if config.ladder.kill {
        sidecar.ladder.push(LadderStep {
            step: Step::signal(Signal::Kill),
            purpose: Purpose::Quit,
            code: ExitCode::Known(137),
            takes: Duration::ZERO,
            advice: String::new(),
        });
    }
    Some(sidecar)
}

pub(super) fn recipe_of<'config>(
    pod: &Pod,
    container: &Container,
    config: &'config Config,
) -> Option<&'config Recipe> {
    let mut recipes = config.recipes.iter();
    recipes.find(|recipe| recipe.recognizes(pod, container))
}

/// A container with its version, if known.
pub(crate) fn subject<'pod>(
    pod: &'pod Pod,
    container: &'pod Container,
    versions: &VersionQueries,
) -> Subject<'pod> {
    let tag = crate::pod::image::version(&container.image);
    let image = container.image_id.as_ref().unwrap_or(&container.image);
    Subject {
        pod,
        container,
        version: tag.or_else(|| versions.version(image)),
    }
}

/// The step that the pod declares, then SIGTERM where that step is a request.
fn by_annotation(pod: &Pod, step: &Step) -> Vec<LadderStep> {
    let term = Step::signal(Signal::Term);
    let steps = match step {
        Step::Request(_) if may_have_requests(pod) => vec![step.clone(), term],
        Step::Request(_) => vec![term],
        Step::Signal { .. } => vec![step.clone()],
    };
    let ladder_step = |step| LadderStep {
        step,
        purpose: Purpose::Quit,
        // The exit code is not known; the pod's author requested the step.
        code: ExitCode::ZERO,
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
    versions: &VersionQueries,
) -> (Vec<LadderStep>, Option<VersionQuery>) {
    let tag = crate::pod::image::version(&container.image);
    let image = container.image_id.as_ref().unwrap_or(&container.image);
    let subject = subject(pod, container, versions);
    let version_query = recipe
        .version_endpoint(subject)
        .filter(|_| tag.is_none())
        .map(|(port, endpoint)| VersionQuery {
            image: image.clone(),
            request: VersionRequest {
                port,
                path: endpoint.path.clone(),
                pointer: endpoint.pointer.clone(),
            },
        });
    let drain = recipe.drain_step(subject, tuning.drain);
    let ladder = drain.into_iter().chain(recipe.quit_ladder(subject));
    (ladder.collect(), version_query)
}
