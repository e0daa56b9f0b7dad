//! Reviews of pods: the decisions that follow from the current state.

mod cost;
pub(super) mod deletion;
mod linger;

use std::{mem, time::Duration};

use super::Engine;
use crate::{
    base::{
        id::{ContainerKey, PodUid},
        time::Timestamp,
    },
    decision::{Kind, WaitReason},
    engine::{
        action::Action,
        kubelet_poll::{self, KubeletPoll},
    },
    hold::{lifecycle, review::HoldReview},
    plan::Plan,
    pod::{
        completion::{self, Progress},
        state::{Tracked, runs::RunState},
        view::PodView,
    },
    quit::review::{Need, Termination},
    settings::{mode::Mode, overrides::Place},
};

/// The kubelet starts the containers of a pod one right after the other.
const NEXT_CONTAINER: Duration = Duration::from_secs(1);

impl Engine {
    /// The pod at this moment, with a plan that is up to date.
    ///
    /// # Errors
    /// When the kubelet or the API server has not answered yet, with the time of the next review.
    pub(super) fn refresh(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        actions: &mut Vec<Action>,
    ) -> Result<PodView, Option<Timestamp>> {
        if !self.walked {
            return Err(None);
        }
        let mode = self.modes.quit;
        let tracked = self.pods.get_mut(uid).filter(|pod| pod.present);
        let tracked = tracked.ok_or(None)?;
        let Some(spec) = tracked.spec.clone() else {
            tracked.quit.stop();
            poll_kubelet(tracked, &mut self.kubelet_poll, now);
            report_change(tracked, mode, Kind::Waiting(WaitReason::Unlisted), actions);
            return Err(None);
        };
        // The list of a pod without a cgroup did not fetch its Namespace. A failed request is repeated.
        let is_needed = tracked.plan.is_none()
            || self.namespaces.get(&spec.namespace).is_none()
            || self.namespaces.due(&spec.namespace).is_some();
        if is_needed && self.namespaces.begin_request(now, &spec.namespace, true) {
            actions.push(Action::FetchNamespace(spec.namespace.clone()));
        }
        let Some(values) = self.namespaces.get(&spec.namespace) else {
            let kind = Kind::Waiting(WaitReason::NamespaceUnknown);
            report_change(tracked, mode, kind, actions);
            let retry = self.namespaces.due(&spec.namespace);
            if let (Some(_), Some(sandbox)) = (retry, &mut tracked.hold.sandbox) {
                lifecycle::namespace_failed(sandbox, actions);
            }
            return Err(retry);
        };
        let is_outdated = tracked.plan_outdated;
        if is_outdated {
            tracked.set_plan(Plan::of(&spec, &self.config, values, &tracked.versions));
        }
        completion::note_restart(&mut tracked.runs, &spec);
        let view = tracked.view(now, self.modes, &self.config).ok_or(None)?;
        if is_outdated {
            report_bad_annotations(tracked, &view, actions);
        }
        Ok(view)
    }

    pub(super) fn review_hold(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        view: Option<&PodView>,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        let (review, tracked) = self.hold_review(now, uid, view)?;
        let wake = review.review(tracked, actions);
        review.review_starts(tracked, actions);
        wake
    }

    /// The input for a review of a pod's hold, and the hold; None until the kernel's features are known.
    pub(super) fn hold_review<'engine>(
        &'engine mut self,
        now: Timestamp,
        uid: &PodUid,
        view: Option<&'engine PodView>,
    ) -> Option<(HoldReview<'engine>, &'engine mut crate::hold::state::Hold)> {
        let features = self.features.as_ref().filter(|_| self.walked)?;
        let tracked = self.pods.get_mut(uid)?;
        let Tracked {
            uid, runs, hold, ..
        } = &mut **tracked;
        let by_operator = hold.by_operator;
        let mode = if by_operator {
            Mode::Enforce
        } else {
            self.modes.hold
        };
        let review = HoldReview {
            uid,
            view,
            runs,
            mode,
            by_operator,
            features,
            now,
        };
        Some((review, hold))
    }
}

/// Continues an operator's request and gives the time of the next review; None without a request.
#[expect(
    clippy::option_option,
    reason = "no request, or when to come back if at all"
)]
pub(super) fn operator_quit(
    tracked: &mut Tracked,
    view: &PodView,
    poll: &mut KubeletPoll,
    actions: &mut Vec<Action>,
) -> Option<Option<Timestamp>> {
    let Tracked { runs, quit, .. } = tracked;
    let force = quit.operator.as_ref()?.force;
    if !view.is_finished() && !force {
        // Otherwise an app has started since the operator's request.
        if !matches!(view.progress, Progress::AskKubelet(_)) {
            quit.operator = None;
        }
        return None;
    }
    let termination = Termination { view, runs, force };
    match termination.review_operator_quit(quit, actions)? {
        Need::Nothing => tracked.unhelpful_answers = 0,
        Need::ExitCodes => poll_kubelet(tracked, poll, view.now),
    }
    Some(tracked.quit.next_wake(view.now))
}

/// Queries the versions of sidecars whose ladder may depend on them; gives the time of the next query.
pub(super) fn query_versions(
    tracked: &mut Tracked,
    view: &PodView,
    actions: &mut Vec<Action>,
) -> Option<Timestamp> {
    if view.modes.quit == Mode::Off {
        return None;
    }
    let mut next = None;
    for sidecar in &view.plan.sidecars {
        let (Some(query), Some((id, run))) =
            (&sidecar.version_query, tracked.runs.newest(&sidecar.name))
        else {
            continue;
        };
        if run.state != RunState::Running {
            continue;
        }
        if tracked.versions.begin(view.now, &query.image) {
            actions.push(Action::AskVersion {
                key: ContainerKey {
                    pod: view.uid.clone(),
                    id: id.clone(),
                },
                request: query.request.clone(),
            });
        }
        let due = tracked.versions.due(&query.image);
        next = next.into_iter().chain(due).min();
    }
    next
}

fn report_bad_annotations(tracked: &mut Tracked, view: &PodView, actions: &mut Vec<Action>) {
    let PodView { plan, modes, .. } = view;
    if [modes.quit, modes.hold, modes.linger] == [Mode::Off; 3] {
        return;
    }
    let reported = mem::replace(&mut tracked.quit.reported.bad_annotations, plan.bad.clone());
    for bad in plan.bad.iter().filter(|bad| !reported.contains(bad)) {
        // An error in a Namespace is reported for the pods with sidecars.
        if bad.place == Place::Pod || !plan.sidecars.is_empty() {
            actions.push(view.report(None, Kind::InvalidAnnotation(bad.clone())));
        }
    }
}

/// Reports the decision on a pod when it changes.
pub(super) fn report_change(
    tracked: &mut Tracked,
    mode: Mode,
    kind: Kind,
    actions: &mut Vec<Action>,
) {
    let last_decision = &mut tracked.quit.reported.last_decision;
    if mode == Mode::Off || last_decision.as_ref() == Some(&kind) {
        return;
    }
    *last_decision = Some(kind.clone());
    let spec = tracked.spec.as_deref();
    actions.push(Action::report(&tracked.uid, spec, None, kind, None));
}

/// Polls the kubelet for a pod, where the missing container should start soon.
pub(super) fn poll_kubelet_later(tracked: &mut Tracked, poll: &mut KubeletPoll, now: Timestamp) {
    if let Some(wait) = kubelet_poll::backoff(tracked.unhelpful_answers)
        && tracked.awaits_kubelet.is_none()
    {
        let due = now + wait.max(NEXT_CONTAINER);
        tracked.awaits_kubelet = Some(due);
        poll.request(due);
    }
}

/// Polls the kubelet for a pod, less often after each reply without the missing fact.
pub(super) fn poll_kubelet(tracked: &mut Tracked, poll: &mut KubeletPoll, now: Timestamp) {
    if tracked.awaits_kubelet.is_some() {
        return;
    }
    if let Some(wait) = kubelet_poll::backoff(tracked.unhelpful_answers) {
        tracked.awaits_kubelet = Some(now + wait);
        poll.request(now + wait);
    }
}
