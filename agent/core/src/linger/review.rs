//! Which stop signals of a pod's containers are held, and until when.

use std::time::Duration;

use super::{
    NoLinger, Released, Stop,
    candidate::{Candidate, candidates, observed},
    report::unsupported,
    state::{Held, Lingers, Progress},
};
use crate::{
    base::{
        id::{ContainerId, PodUid},
        time::Timestamp,
    },
    engine::action::Action,
    plan::SHORTEST_RESERVE,
    pod::{
        spec::Pod,
        state::runs::{Run, RunState, Runs},
        view::PodView,
    },
    settings::mode::Mode,
};

/// How long a stop signal waits for the kubelet's reply. What the kubelet does not show is not held for long.
const CONFIRMATION: Duration = Duration::from_secs(3);
/// The runtime's state of a container exists when the container has executed the image's program, or after this time where
/// that was not seen.
const CREATION: Duration = Duration::from_secs(5);

/// What a review of a pod's stop signals depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LingerReview<'engine> {
    pub(crate) uid: &'engine PodUid,
    /// None while the pod or its Namespace is unknown.
    pub(crate) view: Option<&'engine PodView>,
    pub(crate) spec: Option<&'engine Pod>,
    pub(crate) runs: &'engine Runs,
    pub(crate) mode: Mode,
    pub(crate) now: Timestamp,
}

impl LingerReview<'_> {
    /// Holds or releases stop signals as the pod requires now. Returns the time of the next review.
    pub(crate) fn review(
        self,
        lingers: &mut Lingers,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        if let Some(spec) = self.spec.filter(|spec| spec.deleting) {
            lingers.grace.get_or_insert(spec.grace);
        }
        let held = self.review_held(lingers, actions);
        let late = self.review_late(lingers, actions);
        self.drain_held(lingers, actions);
        let created = self.next_created(lingers);
        let wanted = self.wanted(lingers, actions);
        // A stop signal that waits without being wanted does not change what is wanted.
        let is_release = lingers.order_releases();
        if wanted != lingers.wanted || is_release {
            lingers.wanted.clone_from(&wanted);
            actions.push(Action::HoldStops {
                pod: self.uid.clone(),
                stops: wanted,
            });
        }
        held.into_iter().chain(late).chain(created).min()
    }

    /// When the runtime's state of the next sidecar exists at the latest.
    fn next_created(self, lingers: &Lingers) -> Option<Timestamp> {
        let view = self.view?;
        let runs = self
            .candidates(view)
            .into_iter()
            .filter(|candidate| candidate.limit.is_ok())
            .filter_map(|candidate| self.runs.newest(candidate.name))
            .filter(|(id, run)| !lingers.runs.contains_key(*id) && run.state == RunState::Running);
        runs.filter(|(id, _run)| !lingers.early.contains(*id))
            .filter_map(|(_id, run)| created_at(run))
            .filter(|created| *created > self.now)
            .min()
    }

    fn review_held(self, lingers: &mut Lingers, actions: &mut Vec<Action>) -> Option<Timestamp> {
        let mut wake = None;
        for (id, progress) in &mut lingers.runs {
            let Progress::Held(held) = progress else {
                continue;
            };
            if held.why.is_some() {
                continue;
            }
            if let Some(view) = self.view {
                held.apps_run = self.app_runs(view);
            }
            let due = self.due(id, held);
            held.why = self.why_released(id, held).or_else(|| {
                let (due, why) = due?;
                (due <= self.now).then_some(why)
            });
            if held.why.is_none() {
                let due = due.map(|(due, _why)| due);
                let traffic = self.review_traffic(id, held, actions);
                wake = wake.into_iter().chain(due).chain(traffic).min();
            }
        }
        wake
    }

    /// Why the stop signal of a run is to be released now.
    fn why_released(self, id: &ContainerId, held: &Held) -> Option<Released> {
        if !self.runs.get(id).is_some_and(Run::lives) {
            return Some(Released::SidecarEnded);
        }
        let view = self.view?;
        let is_needed = || {
            self.sidecar(view, id)
                .is_some_and(|sidecar| view.is_needed(sidecar, self.runs))
        };
        let is_wanted = self.mode == Mode::Enforce
            && self
                .candidate(view, id)
                .is_some_and(|candidate| candidate.limit.is_ok());
        if !is_wanted {
            Some(self.why_unwanted(view, id, held))
        } else if !held.is_app && !self.app_runs(view) && !is_needed() {
            Some(Released::AppsEnded)
        } else if held.is_listed && !view.spec.deleting {
            Some(Released::NotDeleted)
        } else {
            None
        }
    }

    /// Why a stop signal that waits is not to wait any more: a deletion with a grace period too short for it, or else the
    /// mode or an annotation.
    fn why_unwanted(self, view: &PodView, id: &ContainerId, held: &Held) -> Released {
        let limit = self.candidate(view, id).map(|candidate| candidate.limit);
        match limit {
            Some(Err(NoLinger::Grace { .. })) if self.mode == Mode::Enforce => {
                held.early(Released::Deadline)
            }
            _ => Released::NotWanted,
        }
    }

    /// An app in back-off, or one that never started, does not start again in a pod that is being deleted.
    pub(super) fn app_runs(self, view: &PodView) -> bool {
        let mut apps = view.plan.apps(&view.spec);
        apps.any(|app| self.runs.is_living(&app.name))
    }

    /// Until when the stop signal of a run may be held, and what that moment is.
    fn due(self, id: &ContainerId, held: &Held) -> Option<(Timestamp, Released)> {
        let deleted = self.spec.filter(|spec| spec.deleting);
        let Some(spec) = deleted else {
            return Some((held.since + CONFIRMATION, Released::Unconfirmed));
        };
        let reserve = self
            .view
            .and_then(|view| self.candidate(view, id))
            .map_or(SHORTEST_RESERVE, |candidate| candidate.reserve);
        let left = held.grace_left(spec).saturating_sub(reserve);
        Some((held.since + left, held.early(Released::Deadline)))
    }

    pub(super) fn name(&self, id: &ContainerId) -> Option<&str> {
        self.runs.name_of(id, self.runs.get(id)?)
    }

    pub(super) fn candidate<'view>(
        self,
        view: &'view PodView,
        id: &ContainerId,
    ) -> Option<Candidate<'view>> {
        let name = self.name(id)?;
        candidates(view).find(|candidate| candidate.name == name)
    }

    /// The containers with stop signals that matter in this mode.
    fn candidates(self, view: &PodView) -> Vec<Candidate<'_>> {
        match self.mode {
            Mode::Enforce => candidates(view).collect(),
            Mode::Observe => observed(view).collect(),
            Mode::Off => Vec::new(),
        }
    }

    fn wanted(self, lingers: &mut Lingers, actions: &mut Vec<Action>) -> Vec<Stop> {
        let Some(view) = self.view else {
            // There is no new information about the pod.
            let mut wanted = lingers.wanted.clone();
            wanted.retain(|stop| match lingers.runs.get(&stop.id) {
                None => true,
                Some(Progress::Held(held)) => held.why.is_none(),
                Some(_) => false,
            });
            return wanted;
        };
        let mut wanted = Vec::new();
        for candidate in self.candidates(view) {
            let Some((id, run)) = self.runs.newest(candidate.name) else {
                continue;
            };
            let is_open = match lingers.runs.get(id) {
                None => {
                    run.state == RunState::Running
                        && (run.executed || !lingers.early.contains(id))
                        && created_at(run).is_none_or(|created| created <= self.now)
                }
                Some(Progress::Held(held)) => held.why.is_none(),
                Some(_) => false,
            };
            let (name, is_app) = (candidate.name, candidate.is_app);
            match candidate.limit {
                Ok(limit) if is_open => wanted.push(Stop {
                    id: id.clone(),
                    container: name.to_owned(),
                    is_app,
                    limit: lingers.limit(id, &view.spec, limit, candidate.reserve),
                    setting: candidate.setting,
                    is_observed: self.mode == Mode::Observe,
                }),
                Err(why @ NoLinger::Grace { .. }) if is_open => {
                    if lingers.reported.insert(name.to_owned()) {
                        let kind = unsupported(is_app, why.to_string());
                        actions.push(view.report(Some(name), kind));
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
        wanted
    }
}

/// When the runtime's state of a run exists at the latest; None if it does.
fn created_at(run: &Run) -> Option<Timestamp> {
    run.since
        .filter(|_| !run.executed)
        .map(|since| since + CREATION)
}
