//! Announcements of sandboxes by the CNI plugin.

use std::{mem, time::Duration};

use crate::{
    base::{
        id::{PodUid, SandboxId},
        time::Timestamp,
    },
    cni::protocol::{Outcome, Reply, Request},
    decision::Kind,
    engine::{Engine, action::Action},
    hold::{
        lifecycle,
        state::{HoldPhase, Origin, Sandbox},
    },
};

/// How long the sandbox of an unknown pod is kept. The plugin waits less.
const UNPLACED: Duration = Duration::from_secs(5);
/// Limit of kept sandboxes of unknown pods.
const UNPLACED_KEPT: usize = 64;

impl Engine {
    /// The plugin announces a sandbox.
    pub(in crate::engine) fn announced(
        &mut self,
        now: Timestamp,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        match self.pod_of(&request) {
            Some(uid) => self.adopt_sandbox(now, &uid, request.sandbox, actions),
            None => {
                self.kubelet_poll.request(now);
                self.unplaced.push((now, request));
                if self.unplaced.len() > UNPLACED_KEPT {
                    let (_at, oldest) = self.unplaced.remove(0);
                    reject_unknown_sandbox(oldest.sandbox, actions);
                }
            }
        }
    }

    /// The sandbox is known: it is announced for a second interface, or the agent found it before the plugin announced
    /// it.
    fn announced_again(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        sandbox: SandboxId,
        actions: &mut Vec<Action>,
    ) {
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        let first_run = tracked.runs.first_run_of(&sandbox);
        let Some(known) = &mut tracked.hold.sandbox else {
            return;
        };
        match &mut known.origin {
            // The reply to the first announcement is one to this announcement as well.
            Origin::Announced { reply: None } => {}
            Origin::Announced { reply: Some(reply) } => actions.push(Action::Answer {
                sandbox: sandbox.clone(),
                reply: reply.clone(),
            }),
            Origin::Found { unreported_ports } => {
                if let Some(ports) = unreported_ports.take() {
                    let spec = tracked.spec.as_deref();
                    let kind = Kind::HoldAdopted { ports };
                    actions.push(Action::report(uid, spec, None, kind, None));
                }
                known.origin = Origin::Announced { reply: None };
                known.first_run = first_run;
                lifecycle::announced(known, actions);
            }
        }
        if matches!(known.phase, HoldPhase::Released { .. }) {
            actions.push(Action::Forget { sandbox });
        }
        if tracked.spec.is_none() {
            self.kubelet_poll.request(now);
        }
        self.review_pod(now, uid, actions);
    }

    fn adopt_sandbox(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        sandbox: SandboxId,
        actions: &mut Vec<Action>,
    ) {
        if self.sandboxes.contains_key(&sandbox) {
            return self.announced_again(now, uid, sandbox, actions);
        }
        self.forget_sandbox(uid, actions);
        self.sandboxes.insert(sandbox.clone(), uid.clone());
        let tracked = self.pod_mut(uid);
        // A late announcement finds the sandbox's own container among the runs, and later runs belong to this sandbox.
        let first_run = tracked.runs.first_run_of(&sandbox);
        let origin = Origin::Announced { reply: None };
        tracked.hold.sandbox = Some(Sandbox::new(sandbox, first_run, origin));
        if tracked.spec.is_none() {
            self.kubelet_poll.request(now);
        }
        self.review_pod(now, uid, actions);
    }

    /// The pod that a sandbox is announced for: where the sandbox is not known and the runtime does not report
    /// its UID, the pod of that name that the kubelet lists.
    fn pod_of(&self, request: &Request) -> Option<PodUid> {
        let owner = self.owner(&request.sandbox);
        if let Some(uid) = owner.or_else(|| request.pod.uid.clone()) {
            return Some(uid);
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

    /// Assigns pods to sandboxes that have none.
    pub(in crate::engine) fn place(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        for (at, request) in mem::take(&mut self.unplaced) {
            match self.pod_of(&request) {
                Some(uid) => self.adopt_sandbox(now, &uid, request.sandbox, actions),
                None if now.since(at) < UNPLACED => self.unplaced.push((at, request)),
                None => reject_unknown_sandbox(request.sandbox, actions),
            }
        }
    }
}

/// The kubelet lists no pod for this sandbox.
fn reject_unknown_sandbox(sandbox: SandboxId, actions: &mut Vec<Action>) {
    actions.push(Action::Answer {
        sandbox: sandbox.clone(),
        reply: Reply {
            outcome: Outcome::NotHeld,
            reason: Some("the kubelet lists no such pod".to_owned()),
        },
    });
    actions.push(Action::Forget { sandbox });
}
