//! Sandboxes: whose they are, and how far their connections are let in.

use std::time::Duration;

use super::Engine;
use crate::{
    base::{
        id::{ContainerKey, PodUid, SandboxId},
        time::Timestamp,
    },
    cni::protocol::{Outcome, Reply, Request},
    engine::action::Action,
    hold::{
        Opened, Remains, Tally,
        conditions::Known,
        lifecycle::Holding,
        state::{Sandbox, Shut, State},
    },
    pod::state::Tracked,
    quit::report,
    settings::{config::LONGEST_WAIT, mode::Mode},
    start::Told,
};

/// How long a sandbox whose pod nobody knows is kept: the plugin does not wait
/// as long.
const UNPLACED: Duration = Duration::from_secs(5);
/// Sandboxes that are kept so.
const UNPLACED_KEPT: usize = 64;

impl Engine {
    /// Goes on with the sandbox of a pod; says when to come back.
    pub(super) fn hold(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        self.with_holding(now, uid, |holding, tracked| holding.deal(tracked, actions))
            .flatten()
    }

    pub(super) fn with_holding<T>(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        go_on: impl FnOnce(Holding<'_>, &mut Tracked) -> T,
    ) -> Option<T> {
        let features = self.features.as_ref().filter(|_| self.walked)?;
        let tracked = self.pods.get_mut(uid)?;
        let spec = tracked.spec.clone();
        let plan = tracked.plan.clone().filter(|_| !tracked.plan_is_old);
        let known = spec.as_deref().zip(plan.as_deref());
        let by_hand = tracked.hold.by_hand;
        let holding = Holding {
            known: known.map(|(spec, plan)| Known { spec, plan }),
            mode: if by_hand {
                Mode::Enforce
            } else {
                self.modes.hold
            },
            by_hand,
            features,
            now,
        };
        Some(go_on(holding, tracked))
    }

    /// The plugin announces a sandbox.
    pub(super) fn announced(
        &mut self,
        now: Timestamp,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        if let Some(uid) = self.owner(&request.sandbox) {
            self.announced_again(&uid, request.sandbox, actions);
            return;
        }
        match self.pod_of(&request) {
            Some(uid) => self.take_in(now, &uid, request.sandbox, actions),
            None => {
                self.fetch.want(now);
                self.unplaced.push((now, request));
                if self.unplaced.len() > UNPLACED_KEPT {
                    let (_at, oldest) = self.unplaced.remove(0);
                    turn_away(oldest.sandbox, actions);
                }
            }
        }
    }

    /// A second interface of a sandbox.
    fn announced_again(&self, uid: &PodUid, sandbox: SandboxId, actions: &mut Vec<Action>) {
        let known = self.pods.get(uid);
        let Some(known) = known.and_then(|pod| pod.hold.sandbox.as_ref()) else {
            return;
        };
        let Some(reply) = known.reply.clone() else {
            return;
        };
        actions.push(Action::Answer {
            sandbox: sandbox.clone(),
            reply,
        });
        if matches!(known.state, State::Over { .. }) {
            actions.push(Action::Forget { sandbox });
        }
    }

    fn take_in(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        sandbox: SandboxId,
        actions: &mut Vec<Action>,
    ) {
        self.forget_sandbox(uid, actions);
        self.sandboxes.insert(sandbox.clone(), uid.clone());
        let tracked = self.pod(uid);
        // A word that comes late finds the sandbox's own container there, and
        // what came after it is of this sandbox.
        let begun = tracked.begun_before(&sandbox);
        tracked.hold.sandbox = Some(Sandbox::new(sandbox, begun));
        if tracked.spec.is_none() {
            self.fetch.want(now);
        }
        self.review_pod(now, uid, actions);
    }

    /// The pod that a sandbox is announced for: where the runtime does not tell
    /// its UID, the one of that name that the kubelet lists.
    fn pod_of(&self, request: &Request) -> Option<PodUid> {
        if request.pod.uid.is_some() {
            return request.pod.uid.clone();
        }
        let specs = self.pods.values().filter_map(|pod| pod.spec.as_ref());
        let named = specs.filter(|spec| {
            !spec.deleting
                && spec.terminal.is_none()
                && spec.namespace == request.pod.namespace
                && spec.name == request.pod.name
        });
        let mut uids = named.map(|spec| spec.uid.clone());
        let first = uids.next();
        first.filter(|_| uids.next().is_none())
    }

    /// Finds the pods of sandboxes that had none.
    pub(super) fn place(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        for (at, request) in std::mem::take(&mut self.unplaced) {
            match self.pod_of(&request) {
                Some(uid) => self.take_in(now, &uid, request.sandbox, actions),
                None if now.since(at) < UNPLACED => self.unplaced.push((at, request)),
                None => turn_away(request.sandbox, actions),
            }
        }
    }

    /// Takes what the edge tells of a sandbox; one that is forgotten is nobody's.
    pub(super) fn told(
        &mut self,
        now: Timestamp,
        sandbox: &SandboxId,
        actions: &mut Vec<Action>,
        take: impl FnOnce(Holding<'_>, &mut Tracked, &mut Vec<Action>),
    ) {
        if let Some(uid) = self.owner(sandbox) {
            self.with_holding(now, &uid, |holding, tracked| {
                take(holding, tracked, actions);
            });
            self.review_pod(now, &uid, actions);
        }
    }

    /// Has the first container of a pod that nobody announced looked at: an
    /// earlier agent may have left something there.
    pub(super) fn look(&mut self, key: ContainerKey, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        let hold = &mut tracked.hold;
        if hold.sandbox.is_none() && !std::mem::replace(&mut hold.looked, true) {
            actions.push(Action::Look { key });
        }
    }

    /// An open network namespace of a pod that nobody announced.
    pub(super) fn found(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        sandbox: SandboxId,
        remains: Option<Remains>,
        actions: &mut Vec<Action>,
    ) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            actions.push(Action::Forget { sandbox });
            return;
        };
        tracked.hold.opening = false;
        if tracked.hold.sandbox.is_some() {
            actions.push(Action::Forget { sandbox });
            return;
        }
        let mut found = Sandbox::new(sandbox.clone(), 0);
        found.found = true;
        if let Some(remains) = remains {
            let ports = remains.ports.iter().map(|(port, _left)| *port).collect();
            let left = remains.ports.iter().map(|(_port, left)| *left).max();
            let deadline = now + left.unwrap_or_default().min(LONGEST_WAIT);
            found.unsaid = Some(remains.ports.iter().map(|(port, _left)| *port).collect());
            let mut shut = Shut::new(now, deadline, remains.count_only, ports);
            shut.adopted = true;
            found.state = State::Shut(shut);
        }
        tracked.hold.sandbox = Some(found);
        self.sandboxes.insert(sandbox, key.pod.clone());
        self.review_pod(now, &key.pod, actions);
    }

    /// The sandbox of a pod is gone when its own process is.
    pub(super) fn sandbox_ended(&mut self, key: &ContainerKey, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get(&key.pod) else {
            return;
        };
        let sandbox = tracked.hold.sandbox.as_ref();
        let is_it = |sandbox: &&Sandbox| !sandbox.found && sandbox.id.as_str() == key.id.as_str();
        if sandbox.is_some_and(|sandbox| is_it(&sandbox)) {
            self.forget_sandbox(&key.pod, actions);
        }
    }

    /// Forgets the sandbox of a pod, wherever it stands.
    pub(super) fn forget_sandbox(&mut self, uid: &PodUid, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        let Some(sandbox) = tracked.hold.sandbox.take() else {
            return;
        };
        let now = self.now;
        if let Some(let_go) = tracked.hold.starts.withdraw(&tracked.uid) {
            actions.push(let_go);
        }
        if let State::Shut(shut) | State::Opening { shut, .. } = &sandbox.state {
            let kind = shut.opened(now, Opened::Ending, Tally::default(), Vec::new());
            let spec = tracked.spec.clone();
            actions.push(report(tracked, spec.as_deref(), None, kind, None));
        }
        self.sandboxes.remove(&sandbox.id);
        let sandbox = sandbox.id;
        actions.push(Action::Forget { sandbox });
    }

    /// What became of the start of a container.
    pub(super) fn start_told(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        name: &str,
        told: Told,
        actions: &mut Vec<Action>,
    ) {
        self.with_holding(now, &key.pod, |holding, tracked| {
            holding.start_told(key, name, told, tracked, actions);
        });
        self.review_pod(now, &key.pod, actions);
    }

    /// A container has ended, or is gone.
    pub(super) fn start_ended(&mut self, key: ContainerKey, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        let starts = &mut tracked.hold.starts;
        if starts.ended(&key.id) {
            actions.push(Action::LetGoStart { key });
        } else {
            starts.gone(&key.id);
        }
    }

    fn owner(&self, sandbox: &SandboxId) -> Option<PodUid> {
        self.sandboxes.get(sandbox).cloned()
    }
}

/// Nobody knows whose sandbox this is.
fn turn_away(sandbox: SandboxId, actions: &mut Vec<Action>) {
    actions.push(Action::Answer {
        sandbox: sandbox.clone(),
        reply: Reply {
            outcome: Outcome::Open,
            reason: Some("the kubelet lists no such pod".to_owned()),
        },
    });
    actions.push(Action::Forget { sandbox });
}
