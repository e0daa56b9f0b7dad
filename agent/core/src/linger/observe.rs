//! Observe mode: how long before its apps a sidecar of a deleted pod ended.

use std::time::Duration;

use super::{
    longest,
    review::LingerReview,
    state::{Ended, Lingers, Progress},
};
use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    pod::{state::runs::RunState, view::PodView},
    settings::{mode::Mode, overrides::LingerKind},
};

/// A sidecar that ends sooner than this before the last app is not reported.
const NOTABLE: Duration = Duration::from_secs(1);

impl LingerReview<'_> {
    /// Records the ends of sidecars whose stop signals would have waited, and reports them when the last app has ended.
    /// Returns whether the kubelet's list is needed.
    pub(crate) fn observe(self, lingers: &mut Lingers, actions: &mut Vec<Action>) -> bool {
        let Some(view) = self.view.filter(|_| self.mode == Mode::Observe) else {
            return false;
        };
        if view.plan.tuning.linger == LingerKind::No {
            return false;
        }
        self.forget_ended(lingers);
        if self.app_runs(view) {
            return self.record_ends(view, lingers);
        }
        self.report_ends(view, lingers, actions);
        false
    }

    fn record_ends(self, view: &PodView, lingers: &mut Lingers) -> bool {
        let mut is_query = false;
        for sidecar in &view.plan.sidecars {
            let Some((id, run)) = self.runs.newest(&sidecar.name) else {
                continue;
            };
            let RunState::Exited { at, .. } = run.state else {
                continue;
            };
            if lingers.runs.contains_key(id) || longest(&view.spec, &view.plan, sidecar).is_err() {
                continue;
            }
            // The kubelet lists a deletion before it sends the stop signals.
            let is_deletion = view.spec.deleting.then_some(true);
            let ended = Ended { at, is_deletion };
            lingers.runs.insert(id.clone(), Progress::Ended(ended));
            is_query |= is_deletion.is_none();
        }
        is_query
    }

    fn report_ends(self, view: &PodView, lingers: &mut Lingers, actions: &mut Vec<Action>) {
        let Some(last) = self.last_app_end(view) else {
            return;
        };
        for (id, progress) in &mut lingers.runs {
            let Progress::Ended(Ended {
                at,
                is_deletion: Some(is_deletion),
            }) = *progress
            else {
                continue;
            };
            *progress = Progress::Over;
            let ended_before = last.since(at);
            if is_deletion && ended_before >= NOTABLE {
                let kind = Kind::WouldLinger { ended_before };
                actions.push(view.report(self.name(id), kind));
            }
        }
    }

    fn name(&self, id: &ContainerId) -> Option<&str> {
        let (id, run) = self.runs.iter().find(|(run, _state)| *run == id)?;
        self.runs.name_of(id, run)
    }

    fn last_app_end(self, view: &PodView) -> Option<Timestamp> {
        let names = view.spec.containers.iter().map(|one| one.name.as_str());
        let apps = names.filter(|name| view.plan.is_app(name));
        let ends = apps.filter_map(|name| match self.runs.newest(name)?.1.state {
            RunState::Exited { at, .. } => Some(at),
            RunState::Starting | RunState::Running => None,
        });
        ends.max()
    }
}
