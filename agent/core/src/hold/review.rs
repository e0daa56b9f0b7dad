//! The input for a review of a pod's hold.

use std::time::Duration;

use super::{Features, NotHeld, conditions::Conditions, state::LEASE};
use crate::{
    base::{id::PodUid, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    pod::{state::runs::Runs, view::PodView},
    settings::{config::OnDeadline, mode::Mode},
};

/// A pod, and the facts that decide about its hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldReview<'engine> {
    pub(crate) uid: &'engine PodUid,
    /// None until the kubelet and the API server have answered.
    pub(crate) view: Option<&'engine PodView>,
    pub(crate) runs: &'engine Runs,
    pub(crate) mode: Mode,
    pub(crate) by_operator: bool,
    pub(crate) features: &'engine Features,
    pub(crate) now: Timestamp,
}

impl<'engine> HoldReview<'engine> {
    pub(crate) fn not_held(self, view: &'engine PodView) -> Option<&'engine NotHeld> {
        let why = view.plan.not_held.as_ref();
        why.filter(|why| !(self.by_operator && **why == NotHeld::OptedOut))
    }

    /// Whether the pod is held again while a sidecar restarts.
    pub(super) fn rearms(self, view: &PodView) -> bool {
        self.mode == Mode::Enforce && view.plan.tuning.hold_again
    }

    pub(crate) const fn conditions(self, view: &'engine PodView) -> Conditions<'engine> {
        Conditions {
            view,
            runs: self.runs,
        }
    }

    pub(crate) fn report(self, container: Option<&str>, kind: Kind) -> Action {
        let spec = self.view.map(|view| &*view.spec);
        Action::report(self.uid, spec, container, kind, None)
    }
}

/// How long the kernel holds ports beyond the deadline if the agent does not release them.
pub(super) fn lease(view: &PodView) -> Duration {
    match view.plan.tuning.on_deadline {
        OnDeadline::Open => Duration::ZERO,
        OnDeadline::Closed => LEASE,
    }
}
