//! The state of the engine, for operators.

use std::collections::BTreeSet;

use super::Engine;
use crate::{
    admin::{Census, Container, ContainerState, Pod, PodState, Role},
    base::id::PodUid,
    hold::{Features, state::HoldPhase},
    plan::Plan,
    pod::{
        spec,
        state::{
            Tracked,
            runs::{Run, RunState, Runs},
        },
        view::PodView,
    },
    quit::ladder::Milestone,
    settings::mode::Modes,
};

impl Engine {
    /// The counts that the engine keeps; [`Census::with`] adds the others.
    pub fn census(&self) -> Census {
        Census {
            seen: self.pods.values().filter(|pod| pod.present).count(),
            finished: self
                .pods
                .values()
                .filter(|pod| pod.present && pod.quit.reported.contains(&Milestone::Finished))
                .count(),
            gave_up: self.pods.values().filter(|pod| gave_up(pod)).count(),
            held: self.pods.values().filter(|pod| pod.hold.holds()).count(),
            held_starts: self.pods.values().map(|pod| pod.hold.starts.held()).sum(),
            held_stops: self.pods.values().map(|pod| pod.linger.held()).sum(),
            quarantined: self
                .pods
                .values()
                .filter(|pod| pod.present && pod.quarantined.is_some())
                .count(),
            ..Census::default()
        }
    }

    /// The pods, by namespace and name; those without a name come last.
    pub fn pods(&self) -> Vec<Pod> {
        let mut pods: Vec<Pod> = self
            .pods
            .values()
            .filter(|pod| pod.present)
            .map(|pod| {
                let view = pod.view(self.now, self.modes, &self.config);
                pod_of(pod, view.as_ref())
            })
            .collect();
        let key = |pod: &Pod| {
            (
                pod.name.is_none(),
                pod.namespace.clone(),
                pod.name.clone(),
                pod.uid.clone(),
            )
        };
        pods.sort_by_cached_key(key);
        pods
    }

    /// The pods that have a cgroup, or had one and await replies. The list of other finished pods decides nothing.
    pub fn pods_on_node(&self) -> BTreeSet<PodUid> {
        let pods = self.pods.iter();
        pods.filter(|(_uid, pod)| pod.present)
            .map(|(uid, _pod)| uid.clone())
            .collect()
    }

    /// `namespace/name` of a pod that the kubelet has listed.
    pub fn pod_name(&self, uid: &PodUid) -> Option<String> {
        let spec = self.pods.get(uid)?.spec.as_ref()?;
        Some(spec.display_name())
    }

    pub const fn modes(&self) -> Modes {
        self.modes
    }

    /// The kernel features that holds need, once they are known.
    pub const fn features(&self) -> Option<&Features> {
        self.features.as_ref()
    }
}

/// Whether usher gave up on a living sidecar of this finished pod. The kubelet ends the sidecars of a deleted pod.
fn gave_up(pod: &Tracked) -> bool {
    let is_finished = pod.present && pod.quit.reported.contains(&Milestone::Finished);
    let is_deleted = pod.spec.as_ref().is_some_and(|spec| spec.deleting);
    let mut runs = pod.quit.runs_without_a_step();
    is_finished && !is_deleted && runs.any(|id| pod.runs.get(id).is_some_and(Run::lives))
}

fn pod_of(tracked: &Tracked, view: Option<&PodView>) -> Pod {
    let spec = tracked.spec.as_deref();
    let plan = tracked.plan.as_deref();
    let last_decision = tracked.quit.reported.last_decision.as_ref();
    let holds = tracked.hold.holds();
    let held_starts = tracked.hold.starts.held();
    let sandbox = tracked.hold.sandbox.as_ref().filter(|_| holds);
    let held_ports = sandbox.map(|sandbox| match &sandbox.phase {
        HoldPhase::Holding(held) | HoldPhase::Releasing { held, .. } => {
            held.ports.iter().copied().collect()
        }
        HoldPhase::Arming { ports, .. } => ports.iter().copied().collect(),
        HoldPhase::Pending | HoldPhase::Released { .. } => Vec::new(),
    });
    Pod {
        uid: tracked.uid.to_string(),
        namespace: spec.map(|spec| spec.namespace.clone()),
        name: spec.map(|spec| spec.name.clone()),
        state: state_of(tracked, view, holds || held_starts > 0),
        decision: last_decision.map(|kind| kind.into_str().to_owned()),
        reason: last_decision.map(crate::decision::Kind::reason),
        held_ports: held_ports.unwrap_or_default(),
        held_starts,
        held_stops: tracked.linger.held(),
        host_network: spec.is_some_and(|spec| spec.host_network),
        deleting: spec.is_some_and(|spec| spec.deleting),
        quarantine: tracked.quarantined,
        containers: containers_of(&tracked.runs, spec, plan),
    }
}

fn state_of(tracked: &Tracked, view: Option<&PodView>, holds: bool) -> PodState {
    let Some(view) = view else {
        return PodState::Unknown;
    };
    if holds {
        return PodState::Held;
    }
    if view.plan.not_ours.is_some() {
        return PodState::NotApplicable;
    }
    if !view.is_finished() {
        return PodState::Running;
    }
    match view.living_sidecars(&tracked.runs).next() {
        Some(_living) => PodState::Finished,
        None => PodState::Done,
    }
}

fn containers_of(runs: &Runs, spec: Option<&spec::Pod>, plan: Option<&Plan>) -> Vec<Container> {
    let mut containers = Vec::new();
    let names = |names: &[String], role| {
        let bare = |name: &String| container(runs, name, role);
        names.iter().map(bare).collect::<Vec<_>>()
    };
    if let Some(spec) = spec {
        containers.extend(names(&spec.init_containers, Role::Init));
        containers.extend(names(&spec.native_sidecars, Role::Native));
        for found in &spec.containers {
            let sidecar = plan.and_then(|plan| {
                let mut sidecars = plan.sidecars.iter();
                sidecars.find(|sidecar| sidecar.name == found.name)
            });
            let role = match (plan, sidecar) {
                (None, _) => Role::Other,
                (Some(plan), None) if plan.ends_by_itself(&found.name) => Role::SelfEnding,
                (Some(_), None) => Role::App,
                (Some(_), Some(_)) => Role::Sidecar,
            };
            let mut seen = container(runs, &found.name, role);
            seen.recipe = sidecar.map(|sidecar| sidecar.recipe.to_string());
            seen.image = Some(found.image.clone());
            if let (None, Some(status)) = (&seen.id, &found.status) {
                seen.id = status.id.as_ref().map(ToString::to_string);
                if let spec::RunState::Terminated(code) = status.state {
                    seen.state = ContainerState::Exited;
                    seen.exit_code = Some(code);
                }
            }
            if seen.exit_code.is_none()
                && let Some((id, run)) = runs.newest(&found.name)
                && !run.lives()
            {
                seen.exit_code = found.reported_code(id);
            }
            containers.push(seen);
        }
    }
    let known = |id: &str| containers.iter().any(|seen| seen.id.as_deref() == Some(id));
    let strangers: Vec<Container> = runs
        .iter()
        .filter(|(id, run)| run.lives() && !known(id.as_str()))
        .map(|(id, run)| Container {
            name: runs.name_of(id, run).map(str::to_owned),
            ..bare(None, Role::Other, Some((id.as_str(), run)))
        })
        .collect();
    containers.extend(strangers);
    containers
}

fn container(runs: &Runs, name: &str, role: Role) -> Container {
    let newest = runs.newest(name);
    bare(Some(name), role, newest.map(|(id, run)| (id.as_str(), run)))
}

fn bare(name: Option<&str>, role: Role, run: Option<(&str, &Run)>) -> Container {
    let (state, exit_code) = match run.map(|(_id, run)| run.state) {
        None => (ContainerState::Unseen, None),
        Some(RunState::Starting) => (ContainerState::Starting, None),
        Some(RunState::Running) => (ContainerState::Running, None),
        Some(RunState::Exited { status, .. }) => {
            let code = status.map(crate::pod::exit_status::ExitStatus::kubernetes_code);
            (ContainerState::Exited, code)
        }
    };
    Container {
        name: name.map(str::to_owned),
        id: run.map(|(id, _run)| id.to_owned()),
        role,
        recipe: None,
        image: None,
        state,
        exit_code,
        pid: None,
    }
}
