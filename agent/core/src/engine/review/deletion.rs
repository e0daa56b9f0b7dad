//! Pods that may be in deletion: the kubelet lists the deletion, and is queried for it when the last app has ended.

use crate::{
    base::time::Timestamp,
    decision::WaitReason,
    engine::{action::Action, kubelet_poll::KubeletPoll},
    pod::{
        completion::{self, Progress},
        state::Tracked,
        view::PodView,
    },
    quit::{ladder::Milestone, review::Termination},
    settings::mode::Mode,
};

/// Whether the pod is being deleted and usher observed all its apps run and end, although they would restart otherwise.
pub(in crate::engine) fn has_ended(view: &PodView) -> bool {
    view.modes.quit != Mode::Off
        && view.spec.deleting
        && view.last_app_end.is_some()
        && matches!(
            view.progress,
            // The second one: a later run may have ended before its name was known.
            Progress::Unfinished(_) | Progress::AskKubelet(WaitReason::StatusUnknown { .. })
        )
        && (view.plan.not_ours.is_none() || view.never_finishes())
}

/// Reviews a pod in deletion; gives the time of the next review.
pub(in crate::engine) fn review(
    tracked: &mut Tracked,
    view: &PodView,
    actions: &mut Vec<Action>,
) -> Option<Timestamp> {
    let Tracked { runs, quit, .. } = tracked;
    // Nothing of the pod restarts, so exit codes do not forbid a step.
    let termination = Termination {
        view,
        runs,
        force: true,
    };
    termination.review_deletion(quit, actions);
    quit.next_wake(view.now)
}

/// Queries the kubelet when the last app has ended and would restart: the pod may be in deletion. The kubelet lists the deletion
/// before it sends SIGTERM, so one query for each end is enough.
pub(in crate::engine) fn query(tracked: &mut Tracked, view: &PodView, poll: &mut KubeletPoll) {
    if view.modes.quit == Mode::Off || view.spec.deleting || !view.never_finishes() {
        return;
    }
    let Tracked { runs, quit, .. } = tracked;
    let Some((id, _at)) = completion::last_app_run(runs, &view.spec, &view.plan) else {
        return;
    };
    let termination = Termination {
        view,
        runs,
        force: true,
    };
    if termination.acts_on_deletion() && quit.reported.insert(Milestone::Queried(id.clone())) {
        poll.request(view.now);
    }
}
