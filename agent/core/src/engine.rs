//! The engine: events in, actions out.

pub mod action;
mod attempts;
mod dry_run;
pub mod event;
mod kubelet_list;
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
    cost::Ledger,
    decision::{Kind, WaitReason},
    engine::{
        action::Action,
        event::Event,
        kubelet_poll::{KubeletPoll, LAST_BACKOFF},
        namespaces::Namespaces,
        timers::Timers,
    },
    hold::Features,
    pod::{completion::Progress, container_change::ContainerChange, state::Tracked, view::PodView},
    quit::review::{Need, Termination, prepare},
    settings::{
        config::Config,
        mode::{Mode, Modes},
    },
};

/// When the kubelet is polled again after the start: the statuses in its first list are outdated by the lag of the
/// kubelet's watch.
const AFTER_START_MS: [u64; 2] = [700, 2500];

/// The state of a node, and the decisions that follow from it.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    modes: Modes,
    config: Arc<Config>,
    walked: bool,
    now: Timestamp,
    kubelet_poll: KubeletPoll,
    timers: Timers,
    namespaces: Namespaces,
    /// Boxed, because half of the slots in the nodes of the tree may be empty.
    pods: BTreeMap<PodUid, Box<Tracked>>,
    features: Option<Features>,
    sandboxes: BTreeMap<SandboxId, PodUid>,
    /// Sandboxes that the runtime announced without a UID, of pods that the kubelet has not listed yet.
    unplaced: Vec<(Timestamp, Request)>,
    costs: Ledger,
    /// A configuration whose recipes wait for the next list of pods, and when it was set.
    next_config: Option<(Timestamp, Arc<Config>)>,
}

impl Engine {
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Applies an event, runs the timers that are due, and returns what to do.
    pub fn step(&mut self, now: Timestamp, event: Event) -> Vec<Action> {
        let mut actions = self.apply(now, event);
        actions.append(&mut self.run_timers(now));
        actions
    }

    /// Applies an event and returns what to do. [`Self::run_timers`] has to follow, for the pods without an event.
    ///
    /// Time does not go back: a `now` before the last one is replaced by the last one.
    pub fn apply(&mut self, now: Timestamp, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let now = now.max(self.now);
        self.now = now;
        match event {
            // === node ===
            Event::Modes(modes) => self.set_modes(now, modes, &mut actions),
            Event::Configured { config, modes } => {
                self.modes = modes;
                self.set_config(now, config, &mut actions);
            }
            Event::Kernel(features) => {
                self.features = Some(features);
                self.review_all(now, &mut actions);
            }
            Event::StartSupport(support) => self.set_start_support(now, support, &mut actions),
            Event::Walked => self.tree_walked(now, &mut actions),
            // === API server and kubelet ===
            Event::Namespace { name, reply } => {
                if self.namespaces.answered(now, &name, reply) {
                    self.outdate_plans(|pod| pod.namespace == name);
                }
                self.review_all(now, &mut actions);
            }
            Event::Pods(pods) => {
                self.kubelet_poll.answered(now);
                self.listed(now, pods, &mut actions);
                self.place(now, &mut actions);
                self.review_all(now, &mut actions);
            }
            Event::PodsUnavailable => self.kubelet_poll.failed(now),
            // === pods and containers ===
            Event::PodAppeared(uid) => {
                let pod = self.pod_mut(&uid);
                pod.present = true;
                pod.leaving = false;
                self.review_pod(now, &uid, &mut actions);
            }
            Event::PodGone(uid) => self.pod_gone(&uid, &mut actions),
            Event::Container { key, change } => {
                self.container_changed(now, key, change, &mut actions);
            }
            // === termination ===
            Event::Attempted { key, outcome } => self.attempted(now, &key, outcome, &mut actions),
            Event::VersionAnswered { key, version } => {
                self.version_answered(now, &key, version.as_deref(), &mut actions);
            }
            // === hold ===
            Event::Sandbox(request) => self.announced(now, request, &mut actions),
            Event::Armed { sandbox, result } => {
                self.review_sandbox(now, &sandbox, &mut actions, |review, hold, actions| {
                    review.armed(hold, result, actions);
                });
            }
            Event::Ready { sandbox, probe } => self.ready(now, &sandbox, &probe, &mut actions),
            Event::ProbeFailed { sandbox, probe } => {
                self.review_sandbox(now, &sandbox, &mut actions, |review, hold, _actions| {
                    review.probe_failed(hold, probe);
                });
            }
            Event::Released { sandbox, result } => {
                self.review_sandbox(now, &sandbox, &mut actions, |review, hold, actions| {
                    review.released(hold, result, actions);
                });
            }
            Event::Found {
                key,
                sandbox,
                remains,
            } => self.found(now, &key, sandbox, remains, &mut actions),
            Event::NotFound { key } => self.not_found(&key.pod),
            Event::Quarantined { subject, reason } => {
                self.quarantined(&subject, reason, &mut actions);
            }
            Event::Start { key, name, result } => {
                self.start_reported(now, &key, &name, result, &mut actions);
            }
            // === linger ===
            Event::Drained { key, outcome } => self.drained(&key, outcome, &mut actions),
            Event::Stop { key, name, result } => {
                self.stop_reported(now, &key, &name, result, &mut actions);
            }
            Event::TrafficSampled { key, sample } => {
                self.traffic_sampled(now, &key, sample, &mut actions);
            }
            // === operator ===
            Event::Operator(request) => self.operator_requested(now, &request, &mut actions),
            Event::Timer => {}
        }
        self.count_connections(&actions);
        actions
    }

    /// Does what is due, and returns what else to do.
    pub fn run_timers(&mut self, now: Timestamp) -> Vec<Action> {
        let mut actions = Vec::new();
        let now = now.max(self.now);
        self.now = now;
        for uid in self.timers.due(now) {
            self.review_pod(now, &uid, &mut actions);
        }
        self.count_connections(&actions);
        if self.kubelet_poll.due().is_some_and(|due| due <= now) {
            self.kubelet_poll.sent(now);
            actions.push(Action::FetchPods);
        }
        actions
    }

    /// The time of the last event.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// The earliest time at which [`Event::Timer`] is due, unless another event changes it before; None while nothing
    /// is due.
    pub fn next_wake(&self) -> Option<Timestamp> {
        // The timers that were due by then have run.
        let poll = self.kubelet_poll.due().filter(|due| *due > self.now);
        self.timers.next(self.now).into_iter().chain(poll).min()
    }

    fn pod_mut(&mut self, uid: &PodUid) -> &mut Tracked {
        self.pods
            .entry(uid.clone())
            .or_insert_with(|| Box::new(Tracked::new(uid.clone())))
    }

    fn set_start_support(
        &mut self,
        now: Timestamp,
        support: Result<(), String>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(features) = &mut self.features {
            features.start = support;
        }
        self.review_all(now, actions);
    }

    fn set_modes(&mut self, now: Timestamp, modes: Modes, actions: &mut Vec<Action>) {
        self.modes = modes;
        self.kubelet_poll.request(now);
        self.review_all(now, actions);
    }

    fn tree_walked(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.walked = true;
        self.kubelet_poll.request(now);
        for ms in AFTER_START_MS {
            self.kubelet_poll.request(now + Duration::from_millis(ms));
        }
        self.review_all(now, actions);
    }

    fn container_changed(
        &mut self,
        now: Timestamp,
        key: ContainerKey,
        change: ContainerChange,
        actions: &mut Vec<Action>,
    ) {
        let has_started = matches!(change, ContainerChange::Started { .. });
        let has_ended = change.is_end();
        if change == ContainerChange::Gone {
            self.sandbox_ended(&key, actions);
        }
        // The kernel may report the end of a container after its pod is gone.
        if let Some(pod) = self.pods.get_mut(&key.pod) {
            pod.apply(&key.id, now, change);
            pod.unhelpful_answers = 0;
            if has_ended {
                // The next request may be half a minute away, because it waits for another fact.
                pod.awaits_kubelet = None;
            }
            self.review_pod(now, &key.pod, actions);
        }
        if has_started {
            self.inspect_namespace(key, actions);
        } else if has_ended {
            self.sandbox_ended(&key, actions);
            self.start_ended(key, actions);
        }
    }

    fn review_all(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let uids: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in uids {
            self.review_pod(now, &uid, actions);
        }
    }

    /// Reviews one pod, and sets the time of its next review.
    fn review_pod(&mut self, now: Timestamp, uid: &PodUid, actions: &mut Vec<Action>) {
        let (view, quit) = match self.refresh(now, uid, actions) {
            Ok(view) => {
                self.review_cost(&view);
                let quit = self.review_quit(&view, actions);
                let retry = self.namespaces.due(&view.spec.namespace);
                (Some(view), quit.into_iter().chain(retry).min())
            }
            Err(wake) => (None, wake),
        };
        let hold = self.review_hold(now, uid, view.as_ref(), actions);
        let linger = self.review_linger(now, uid, view.as_ref(), actions);
        // A moment that has passed must not hide a later one.
        let wakes = quit.into_iter().chain(hold).chain(linger);
        self.timers.set(uid, wakes.filter(|at| *at > now).min());
    }

    fn review_quit(&mut self, view: &PodView, actions: &mut Vec<Action>) -> Option<Timestamp> {
        let tracked = self.pods.get_mut(&view.uid)?;
        let mode = view.modes.quit;
        if let Some(wake) = review::operator_quit(tracked, view, &mut self.kubelet_poll, actions) {
            return wake;
        }
        if review::deletion::has_ended(view) {
            return review::deletion::review(tracked, view, actions);
        }
        if let Some(why) = &view.plan.not_ours {
            tracked.quit.reset();
            review::report_change(tracked, mode, Kind::NotApplicable(why.clone()), actions);
            review::deletion::query(tracked, view, &mut self.kubelet_poll);
            return None;
        }
        let version_query = review::query_versions(tracked, view, actions);
        let tracked = &mut **tracked;
        let Tracked { runs, quit, .. } = &mut *tracked;
        if mode == Mode::Enforce {
            prepare(view, runs, quit, actions);
        }
        let termination = Termination {
            view,
            runs,
            force: false,
        };
        termination.report_requested_exits(quit, actions);
        let poll = &mut self.kubelet_poll;
        match &view.progress {
            Progress::Unfinished(why) => {
                quit.reset();
                review::report_change(tracked, mode, Kind::Waiting(why.clone()), actions);
            }
            Progress::Unseen(why) => {
                quit.reset();
                review::poll_kubelet_later(tracked, poll, view.now);
                review::report_change(tracked, mode, Kind::Waiting(why.clone()), actions);
            }
            // While a fact is unknown, no termination begins and none is revoked: the kubelet's reply decides.
            Progress::AskKubelet(why) => {
                if matches!(
                    why,
                    WaitReason::KubeletMayRestart { .. } | WaitReason::CodeUnknown { .. }
                ) {
                    // The status comes, though late where the API server is away.
                    tracked.unhelpful_answers = tracked.unhelpful_answers.min(LAST_BACKOFF);
                }
                review::poll_kubelet(tracked, poll, view.now);
                review::report_change(tracked, mode, Kind::Waiting(why.clone()), actions);
            }
            Progress::Hidden => {
                quit.reset();
                review::poll_kubelet(tracked, poll, view.now);
                let runtime_class = view.spec.runtime_class.clone();
                review::report_change(
                    tracked,
                    mode,
                    Kind::RuntimeUnsupported { runtime_class },
                    actions,
                );
            }
            Progress::Finished { .. } => match termination.review(quit, actions) {
                Need::Nothing => tracked.unhelpful_answers = 0,
                Need::ExitCodes => review::poll_kubelet(tracked, poll, view.now),
            },
        }
        let next_step = tracked.quit.next_wake(view.now);
        next_step.into_iter().chain(version_query).min()
    }

    fn pod_gone(&mut self, uid: &PodUid, actions: &mut Vec<Action>) {
        self.forget_sandbox(uid, actions);
        self.close_cost(uid);
        // The kubelet may list the pod as long as the API has the object; without its cgroup, nothing can be done for
        // it.
        if let Some(tracked) = self.pods.get_mut(uid) {
            tracked.leaving = true;
            actions.extend(tracked.linger.withdraw(uid));
        }
        self.remove_left_pod(uid);
    }

    /// Removes a pod that is gone once the replies of its sidecars have arrived: the exit of a sidecar and of the pod may
    /// overtake the reply to the request.
    fn remove_left_pod(&mut self, uid: &PodUid) {
        let Some(tracked) = self.pods.get(uid) else {
            return;
        };
        if tracked.leaving && !tracked.quit.awaits_answers() {
            self.pods.remove(uid);
            self.timers.set(uid, None);
        }
    }
}

#[cfg(test)]
pub(crate) use tests::stage;
#[cfg(test)]
mod tests;
