//! The held stop signals of one pod's sidecars and apps.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Released, Stop,
    pre_stop::{inbound::Inbound, quiet::Quiet},
};
use crate::{
    base::{
        id::{ContainerId, PodUid},
        time::Timestamp,
    },
    engine::action::Action,
    pod::spec::Pod,
    recipe::step::Request,
};

/// The deletion's time has no fractions of a second.
pub(super) const ROUNDING: Duration = Duration::from_secs(1);

/// The held stop signals of one pod's sidecars and apps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lingers {
    /// The stop signals that the holder is to hold.
    pub(super) wanted: Vec<Stop>,
    pub(super) runs: BTreeMap<ContainerId, Progress>,
    /// The requests that were sent to drain sidecars.
    pub(super) drains: BTreeMap<ContainerId, Request>,
    /// The runs without a state of the runtime when they had not executed their program: the runtime may still write it.
    pub(super) early: BTreeSet<ContainerId>,
    /// Containers that were reported as unsupported.
    pub(super) reported: BTreeSet<String>,
    /// The grace period when the kubelet's list first showed the deletion. A later, shorter one does not shorten the stop
    /// that has begun ([kubernetes/kubernetes#83916](https://github.com/kubernetes/kubernetes/issues/83916)).
    pub(super) grace: Option<Duration>,
    /// In observe mode: what clients do after the stop signal of an app.
    pub(super) inbound: Option<Inbound>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Held(Held),
    /// The run received its stop signal late. The runtime counts the grace period from there, so the run is killed
    /// at the end of the pod's own.
    Late {
        kill_at: Timestamp,
    },
    /// The run has its stop signal, or cannot have it held.
    Over,
    /// In observe mode.
    Observed(Observed),
}

/// A sidecar that received its stop signal, or ended, while an app ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observed {
    /// The first of both.
    pub(super) since: Timestamp,
    pub(super) ended: Option<Timestamp>,
    /// Whether the pod was in deletion then; None until the kubelet has replied.
    pub(super) is_deletion: Option<bool>,
    pub(super) is_sampled: bool,
    /// The connections between containers of the pod at its stop signal.
    pub(super) connections: Option<u64>,
}

/// A stop signal that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) since: Timestamp,
    /// The same, since 1970-01-01T00:00:00Z.
    pub(super) at: Duration,
    /// The kubelet replied after the signal came: its list shows whether it deletes the pod.
    pub(super) is_listed: bool,
    pub(super) is_app: bool,
    /// At the last review.
    pub(super) apps_run: bool,
    /// The limit that the annotation sets.
    pub(super) setting: Option<Duration>,
    /// The traffic of an app with a pre-stop time of `auto`.
    pub(super) quiet: Option<Quiet>,
    /// It is to be released, for this reason.
    pub(super) why: Option<Released>,
    /// The release was ordered.
    pub(super) is_ordered: bool,
}

impl Held {
    /// The result of a release before the run's turn, whose cause is this one.
    pub(super) fn early(&self, cause: Released) -> Released {
        if self.is_app || self.apps_run {
            cause
        } else {
            Released::EarlierStage
        }
    }

    /// What was left of the pod's grace period when the stop signal came, which is later than the deletion where the
    /// sidecar has a preStop hook.
    pub(super) fn grace_left(&self, spec: &Pod) -> Duration {
        let left = |expires: Duration| expires.saturating_sub(self.at).min(spec.grace);
        spec.deletion_expires.map_or(spec.grace, left)
    }
}

impl Lingers {
    /// The limit of a run's hold. A preStop hook, or a kubelet that noticed the deletion late, leaves less than the whole
    /// grace period.
    pub(super) fn limit(
        &self,
        id: &ContainerId,
        spec: &Pod,
        longest: Duration,
        reserve: Duration,
    ) -> Duration {
        let Some(Progress::Held(held)) = self.runs.get(id).filter(|_| spec.deleting) else {
            return longest;
        };
        let left = held.grace_left(spec).saturating_sub(reserve);
        if left + ROUNDING < longest {
            left
        } else {
            longest
        }
    }

    pub(crate) fn held(&self) -> usize {
        let held = |progress: &&Progress| matches!(progress, Progress::Held(_));
        self.runs.values().filter(held).count()
    }

    /// Whether a stop signal waits that is not to be released yet.
    pub(crate) fn is_waiting(&self) -> bool {
        let waits =
            |progress: &Progress| matches!(progress, Progress::Held(held) if held.why.is_none());
        self.runs.values().any(waits)
    }

    pub(super) fn waiting(&mut self) -> impl Iterator<Item = &mut Held> {
        self.runs
            .values_mut()
            .filter_map(|progress| match progress {
                Progress::Held(held) if held.why.is_none() => Some(held),
                _ => None,
            })
    }

    /// The kubelet sent a list that was requested at this time; the pod is in deletion or not.
    pub(crate) fn listed(&mut self, requested: Option<Timestamp>, is_deletion: bool) {
        for progress in self.runs.values_mut() {
            match progress {
                Progress::Held(held) => held.is_listed |= requested >= Some(held.since),
                Progress::Observed(observed) if requested >= Some(observed.since) => {
                    observed.is_deletion.get_or_insert(is_deletion);
                }
                Progress::Observed(_) | Progress::Late { .. } | Progress::Over => {}
            }
        }
        // It was another command, or another stop. The next one may be that of a deletion.
        self.runs.retain(|_id, progress| {
            !matches!(
                progress,
                Progress::Observed(Observed {
                    ended: None,
                    is_deletion: Some(false),
                    ..
                })
            )
        });
        if self
            .inbound
            .as_mut()
            .is_some_and(|inbound| inbound.listed(requested, is_deletion) == Some(false))
        {
            self.inbound = None;
        }
    }

    /// A list that was requested at this time lacks the pod: its deletion was forced, and no deadline is known.
    pub(crate) fn unlisted(&mut self, requested: Option<Timestamp>) {
        for held in self.waiting() {
            if requested >= Some(held.since) {
                held.why = Some(Released::Unlisted);
            }
        }
    }

    /// Releases the stop signals that wait. Returns whether there were any.
    pub(crate) fn release(&mut self, why: Released) -> bool {
        let mut any = false;
        for held in self.waiting() {
            held.why = Some(why);
            any = true;
        }
        any
    }

    /// Notes that the releases of this review are ordered. Returns whether there are any.
    pub(super) fn order_releases(&mut self) -> bool {
        let mut any = false;
        for progress in self.runs.values_mut() {
            if let Progress::Held(held) = progress
                && held.why.is_some()
                && !held.is_ordered
            {
                held.is_ordered = true;
                any = true;
            }
        }
        any
    }

    /// The pod is gone: none of its stop signals is held any more.
    pub(crate) fn withdraw(&mut self, pod: &PodUid) -> Option<Action> {
        if self.wanted.is_empty() {
            return None;
        }
        self.wanted.clear();
        Some(Action::HoldStops {
            pod: pod.clone(),
            stops: Vec::new(),
        })
    }
}
