//! Sandboxes: the pod of each, and the events of its hold.

mod announcement;

use std::mem;

use super::Engine;
use crate::{
    base::{
        id::{ContainerKey, PodUid, SandboxId},
        time::Timestamp,
    },
    decision::Kind,
    engine::{action::Action, event::Subject},
    hold::{
        Probe, Released, Remains, Tally,
        review::HoldReview,
        state::{HeldPorts, Hold, HoldPhase, Origin, Sandbox, TableKind},
    },
    pod::{state::Tracked, view::PodView},
    settings::config::LONGEST_WAIT,
    start::StartResult,
    worker::QuarantineReason,
};

impl Engine {
    /// Applies an event to the hold of a sandbox, and reviews its pod.
    pub(super) fn review_sandbox(
        &mut self,
        now: Timestamp,
        sandbox: &SandboxId,
        actions: &mut Vec<Action>,
        apply: impl FnOnce(HoldReview<'_>, &mut Hold, &mut Vec<Action>),
    ) {
        let Some(uid) = self.owner(sandbox) else {
            return;
        };
        let view = self.current_view(now, &uid);
        if let Some((review, hold)) = self.hold_review(now, &uid, view.as_ref()) {
            apply(review, hold, actions);
        }
        self.review_pod(now, &uid, actions);
    }

    /// A probe of a sandbox succeeded.
    pub(super) fn ready(
        &mut self,
        now: Timestamp,
        sandbox: &SandboxId,
        probe: &Probe,
        actions: &mut Vec<Action>,
    ) {
        let Some(uid) = self.owner(sandbox) else {
            return;
        };
        let view = self.current_view(now, &uid);
        if let Some((review, hold)) = self.hold_review(now, &uid, view.as_ref()) {
            review.ready(hold, probe, actions);
        }
        if let (Some(view), Some(tracked)) = (&view, self.pods.get_mut(&uid)) {
            let claims = view.plan.claims();
            for claim in claims.filter(|claim| claim.probes().any(|one| one == *probe)) {
                tracked.runs.found_listener(&claim.sidecar, now);
            }
        }
        self.review_pod(now, &uid, actions);
    }

    /// Inspects the namespace of the first container of a pod that was not announced: an
    /// earlier agent may have left a table there.
    pub(super) fn inspect_namespace(&mut self, key: ContainerKey, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        let hold = &mut tracked.hold;
        if hold.sandbox.is_none() && !mem::replace(&mut hold.inspected, true) {
            actions.push(Action::Look { key });
        }
    }

    /// The namespace of a pod that was not announced is open.
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
        tracked.hold.opens_namespace = false;
        if let Some(known) = &tracked.hold.sandbox {
            // The plugin may have announced the same sandbox in the meantime.
            if known.id != sandbox {
                actions.push(Action::Forget { sandbox });
            }
            return;
        }
        let origin = Origin::Found {
            unreported_ports: None,
        };
        let mut found = Sandbox::new(sandbox.clone(), 0, origin);
        if let Some(remains) = remains {
            let ports = || remains.ports.iter().map(|(port, _left)| *port);
            let left = remains.ports.iter().map(|(_port, left)| *left).max();
            let deadline = now + left.unwrap_or_default().min(LONGEST_WAIT);
            let (table, unreported_ports) = match remains.count_only {
                true => (TableKind::AdoptedCountOnly, None),
                false => (TableKind::Adopted, Some(ports().collect())),
            };
            found.origin = Origin::Found { unreported_ports };
            found.had_table = true;
            found.phase =
                HoldPhase::Holding(HeldPorts::new(now, deadline, table, ports().collect()));
        }
        tracked.hold.sandbox = Some(found);
        self.sandboxes.insert(sandbox, key.pod.clone());
        self.review_pod(now, &key.pod, actions);
    }

    /// The namespace of a pod that was not announced could not be opened or read: the container has exited, the namespace is
    /// in quarantine, or no worker process runs. The next container that starts is tried.
    pub(super) fn not_found(&mut self, uid: &PodUid) {
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        tracked.hold.inspected = false;
        if mem::take(&mut tracked.hold.opens_namespace) {
            tracked.hold.by_operator = false;
        }
    }

    pub(super) fn quarantined(
        &mut self,
        subject: &Subject,
        reason: QuarantineReason,
        actions: &mut Vec<Action>,
    ) {
        let uid = match subject {
            Subject::Container(key) => Some(key.pod.clone()),
            Subject::Sandbox(sandbox) => self.owner(sandbox),
        };
        let Some((uid, tracked)) =
            uid.and_then(|uid| Some((uid.clone(), self.pods.get_mut(&uid)?)))
        else {
            return;
        };
        tracked.quarantined = Some(reason);
        let spec = tracked.spec.as_deref();
        actions.push(Action::report(
            &uid,
            spec,
            None,
            Kind::Quarantined(reason),
            None,
        ));
    }

    /// A sandbox ends with its own process.
    pub(super) fn sandbox_ended(&mut self, key: &ContainerKey, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get(&key.pod) else {
            return;
        };
        let sandbox = tracked.hold.sandbox.as_ref();
        if sandbox
            .is_some_and(|sandbox| !sandbox.is_found() && sandbox.id.as_str() == key.id.as_str())
        {
            self.forget_sandbox(&key.pod, actions);
        }
    }

    /// Forgets the sandbox of a pod in any phase.
    pub(super) fn forget_sandbox(&mut self, uid: &PodUid, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        let Some(sandbox) = tracked.hold.sandbox.take() else {
            return;
        };
        let now = self.now;
        actions.extend(tracked.hold.starts.withdraw(&tracked.uid, Released::Ending));
        if let HoldPhase::Holding(held) | HoldPhase::Releasing { held, .. } = &sandbox.phase
            && !held.is_late
        {
            let kind = held.released(now, Released::Ending, Tally::default(), Vec::new());
            let spec = tracked.spec.as_deref();
            actions.push(Action::report(uid, spec, None, kind, None));
        }
        self.sandboxes.remove(&sandbox.id);
        let sandbox = sandbox.id;
        actions.push(Action::Forget { sandbox });
    }

    /// The holder reports about the start of a container.
    pub(super) fn start_reported(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        name: &str,
        result: StartResult,
        actions: &mut Vec<Action>,
    ) {
        let view = self.current_view(now, &key.pod);
        if let Some((review, hold)) = self.hold_review(now, &key.pod, view.as_ref()) {
            review.start_reported(key, name, result, &mut hold.starts, actions);
        }
        self.review_pod(now, &key.pod, actions);
    }

    /// A container has ended, or is gone.
    pub(super) fn start_ended(&mut self, key: ContainerKey, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        let Tracked { hold, runs, .. } = &mut **tracked;
        hold.starts.ended(&key.id, |id| runs.contains(id));
        if hold.starts.was_held(&key.id) {
            actions.push(Action::ReleaseStart { key });
        }
    }

    /// The pod at this moment, if its plan is up to date.
    pub(super) fn current_view(&self, now: Timestamp, uid: &PodUid) -> Option<PodView> {
        let tracked = self.pods.get(uid).filter(|pod| !pod.plan_outdated)?;
        tracked.view(now, self.modes, &self.config)
    }

    fn owner(&self, sandbox: &SandboxId) -> Option<PodUid> {
        self.sandboxes.get(sandbox).cloned()
    }
}
