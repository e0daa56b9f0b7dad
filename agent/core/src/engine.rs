//! The engine: events in, actions out.

pub mod action;
mod attempts;
mod dry_run;
pub mod event;
pub(crate) mod kubelet_poll;
pub(crate) mod namespaces;
mod operator;
pub mod request;
mod review;
mod sandboxes;
mod snapshot;
pub(crate) mod timers;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    base::{
        id::{ContainerKey, PodUid, SandboxId},
        time::Timestamp,
    },
    cni::protocol::Request,
    engine::{
        action::Action, event::Event, kubelet_poll::Fetch, namespaces::Namespaces, timers::Agenda,
    },
    hold::Features,
    pod::{container_change::ContainerChange, spec::Pod, state::Tracked},
    settings::{config::Config, mode::Modes},
};

/// When lists are asked for after the start, besides the first: its statuses
/// are older than the start by as much as the kubelet's watch lags behind.
const AFTER_START_MS: [u64; 2] = [700, 2500];

/// All that usher knows of a node, and what follows from it.
#[derive(Debug, Default)]
pub struct Engine {
    modes: Modes,
    config: Arc<Config>,
    walked: bool,
    now: Timestamp,
    fetch: Fetch,
    agenda: Agenda,
    namespaces: Namespaces,
    /// In boxes: half of the room in the tree's nodes may be empty.
    pods: BTreeMap<PodUid, Box<Tracked>>,
    /// What the kernel can do of what a hold needs.
    features: Option<Features>,
    /// Whose the sandboxes are.
    sandboxes: BTreeMap<SandboxId, PodUid>,
    /// Sandboxes of pods whose UID the runtime does not tell and the kubelet
    /// has not listed yet.
    unplaced: Vec<(Timestamp, Request)>,
}

/// How many pods are known, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Pods with a cgroup.
    pub pods: usize,
    /// Those of them that are finished.
    pub finished: usize,
    /// Those of them whose connections wait.
    pub held: usize,
    /// Containers whose starts wait.
    pub held_starts: usize,
}

impl Engine {
    /// An engine that knows nothing but its configuration yet.
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Takes an event and says what is to be done. Time does not go back: a
    /// `now` before the last one counts as the last one.
    pub fn step(&mut self, now: Timestamp, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let now = now.max(self.now);
        self.now = now;
        match event {
            Event::Modes(modes) => {
                self.modes = modes;
                self.fetch.want(now);
                self.review(now, &mut actions);
            }
            Event::Configured(config) => {
                self.config = config;
                // What the new recipes look at has not been kept.
                self.fetch.want(now);
                self.forget_plans(|_pod| true);
                self.review(now, &mut actions);
            }
            Event::Namespace { name, values } => {
                if self.namespaces.answered(now, &name, values) {
                    self.forget_plans(|pod| pod.namespace == name);
                }
                self.review(now, &mut actions);
            }
            Event::Pods(pods) => {
                self.fetch.answered(now);
                self.listed(now, pods, &mut actions);
                self.place(now, &mut actions);
                self.review(now, &mut actions);
            }
            Event::PodsUnavailable => self.fetch.failed(now),
            Event::Walked => {
                self.walked = true;
                self.fetch.want(now);
                for ms in AFTER_START_MS {
                    self.fetch.want(now + Duration::from_millis(ms));
                }
                self.review(now, &mut actions);
            }
            Event::Timer => {}
            Event::Ordered(order) => self.ordered(now, &order, &mut actions),
            Event::PodGone(uid) => self.pod_gone(&uid, &mut actions),
            Event::PodAppeared(uid) => {
                let pod = self.pod(&uid);
                pod.present = true;
                pod.leaving = false;
                self.review_pod(now, &uid, &mut actions);
            }
            Event::Attempted { key, outcome } => {
                // Of a pod that has gone only what was heard is worth telling.
                let leaving = self.pods.get(&key.pod).is_some_and(|pod| pod.leaving);
                let is_told = !leaving || outcome.is_heard();
                let mut said = Vec::new();
                self.attempted(now, &key, outcome, &mut said);
                if is_told {
                    actions.append(&mut said);
                    self.review_pod(now, &key.pod, &mut actions);
                }
                self.leave(&key.pod);
            }
            Event::VersionAnswered { key, body } => {
                self.version_answered(now, &key, body.as_deref(), &mut actions);
            }
            Event::Kernel(features) => {
                self.features = Some(features);
                self.review(now, &mut actions);
            }
            Event::Sandbox(request) => self.announced(now, request, &mut actions),
            Event::Armed { sandbox, result } => {
                self.told(now, &sandbox, &mut actions, |holding, tracked, actions| {
                    holding.armed(tracked, result, actions);
                });
            }
            Event::Ready { sandbox, probe } => {
                self.told(now, &sandbox, &mut actions, |holding, tracked, actions| {
                    holding.ready(tracked, &probe, actions);
                });
            }
            Event::Opened { sandbox, result } => {
                self.told(now, &sandbox, &mut actions, |holding, tracked, actions| {
                    holding.opened(tracked, result, actions);
                });
            }
            Event::Found {
                key,
                sandbox,
                remains,
            } => self.found(now, &key, sandbox, remains, &mut actions),
            Event::CannotHoldStarts(reason) => {
                if let Some(features) = &mut self.features {
                    features.start = Err(reason);
                }
                self.review(now, &mut actions);
            }
            Event::Start { key, name, told } => {
                self.start_told(now, &key, &name, told, &mut actions);
            }
            Event::Container { key, change } => {
                self.container_changed(now, key, change, &mut actions);
            }
        }
        for uid in self.agenda.due(now) {
            self.review_pod(now, &uid, &mut actions);
        }
        if self.fetch.due().is_some_and(|due| due <= now) {
            self.fetch.start(now);
            actions.push(Action::FetchPods);
        }
        actions
    }

    /// When [`Event::Timer`] is to be delivered, at the earliest and if no
    /// other event changes it before; None while there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Timestamp> {
        // What was due at the last step has been dealt with in it.
        let fetch = self.fetch.due().filter(|due| *due > self.now);
        self.agenda.next(self.now).into_iter().chain(fetch).min()
    }

    /// Counts what is known.
    pub fn census(&self) -> Census {
        Census {
            pods: self.pods.values().filter(|pod| pod.present).count(),
            finished: self
                .pods
                .values()
                .filter(|pod| pod.present && pod.quit.said.finished)
                .count(),
            held: self.pods.values().filter(|pod| pod.hold.holds()).count(),
            held_starts: self.pods.values().map(|pod| pod.hold.starts.held()).sum(),
        }
    }

    fn pod(&mut self, uid: &PodUid) -> &mut Tracked {
        self.pods
            .entry(uid.clone())
            .or_insert_with(|| Box::new(Tracked::new(uid.clone())))
    }

    fn container_changed(
        &mut self,
        now: Timestamp,
        key: ContainerKey,
        change: ContainerChange,
        actions: &mut Vec<Action>,
    ) {
        let has_started = matches!(change, ContainerChange::Started { .. });
        let has_ended = matches!(
            change,
            ContainerChange::Exited | ContainerChange::NotStarted | ContainerChange::Gone
        );
        if change == ContainerChange::Gone {
            self.sandbox_ended(&key, actions);
        }
        // The kernel may report the end of a container after its pod is gone.
        if let Some(pod) = self.pods.get_mut(&key.pod) {
            pod.apply(&key.id, now, change);
            pod.vain_answers = 0;
            self.review_pod(now, &key.pod, actions);
        }
        if has_started {
            self.look(key, actions);
        } else if has_ended {
            self.sandbox_ended(&key, actions);
            self.start_ended(key, actions);
        }
    }

    fn pod_gone(&mut self, uid: &PodUid, actions: &mut Vec<Action>) {
        self.forget_sandbox(uid, actions);
        // The kubelet may list it for as long as the API has the object; with
        // its cgroup everything that could be done for it is gone.
        if let Some(tracked) = self.pods.get_mut(uid) {
            tracked.leaving = true;
        }
        self.leave(uid);
    }

    /// Forgets a pod that has gone, once it has been told what came of all that was done: a sidecar's end and the pod's may
    /// overtake the answer to the request.
    fn leave(&mut self, uid: &PodUid) {
        let Some(tracked) = self.pods.get(uid) else {
            return;
        };
        if tracked.leaving && !tracked.quit.awaits_answers() {
            self.pods.remove(uid);
            self.agenda.set(uid, None);
        }
    }

    fn listed(&mut self, now: Timestamp, pods: Vec<Pod>, actions: &mut Vec<Action>) {
        let mut unlisted: Vec<PodUid> = Vec::new();
        let mut specs: BTreeMap<PodUid, Pod> =
            pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        for (uid, tracked) in &mut self.pods {
            let is_new = tracked.spec.is_none();
            let spec = specs.remove(uid);
            // A kubelet that was just started may list nothing yet: what was known counts while the kernel shows the pod.
            let is_missing = spec.is_none() && tracked.present && tracked.spec.is_some();
            if !is_missing {
                tracked.listed(spec);
            }
            match tracked.awaits_kubelet {
                Some(due) if self.fetch.began() >= Some(due) => {
                    tracked.awaits_kubelet = None;
                    tracked.vain_answers += 1;
                }
                // Asked for somebody else's sake, and too early.
                Some(due) => self.fetch.want(due),
                None => {}
            }
            if is_missing {
                review::ask_kubelet(tracked, &mut self.fetch, now);
            }
            match &tracked.spec {
                None if !tracked.present => unlisted.push(uid.clone()),
                None => {}
                Some(spec) => {
                    let asks = tracked.present && self.namespaces.ask(now, &spec.namespace, is_new);
                    let name = asks.then(|| spec.namespace.clone());
                    actions.extend(name.map(Action::FetchNamespace));
                }
            }
        }
        for uid in unlisted {
            self.forget_sandbox(&uid, actions);
            self.pods.remove(&uid);
            self.agenda.set(&uid, None);
        }
        for (uid, spec) in specs {
            // Listed, and no cgroup yet, or no more: kept for its coming.
            self.pod(&uid).listed(Some(spec));
        }
        let pods = &self.pods;
        self.namespaces.retain(|name| {
            let mut specs = pods.values().filter_map(|pod| pod.spec.as_ref());
            specs.any(|spec| spec.namespace == name)
        });
    }

    /// Has the plans of these pods made again.
    fn forget_plans(&mut self, which: impl Fn(&Pod) -> bool) {
        for tracked in self.pods.values_mut() {
            if tracked.spec.as_ref().is_some_and(|spec| which(spec)) {
                tracked.plan_is_old = true;
            }
        }
    }
}

#[cfg(test)]
pub(crate) use tests::stage;
#[cfg(test)]
mod tests;
