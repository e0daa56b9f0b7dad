//! Observe mode: how long before its apps a sidecar of a deleted pod ended, and how many connections were open at its stop
//! signal.

use std::time::Duration;

use super::{
    longest,
    pre_stop::{
        inbound::{Due, Inbound},
        traffic::Sample,
    },
    review::LingerReview,
    state::{Lingers, Observed, Progress},
};
use crate::{
    base::{
        id::{ContainerId, ContainerKey},
        time::Timestamp,
    },
    decision::Kind,
    engine::action::Action,
    plan::Sidecar,
    pod::{state::runs::RunState, view::PodView},
    settings::{mode::Mode, overrides::LingerKind},
};

/// A sidecar that ends sooner than this before the last app is not reported.
const NOTABLE: Duration = Duration::from_secs(1);

impl LingerReview<'_> {
    /// Records what happens to containers with stop signals that would have waited, and reports it when the last app has
    /// ended. Returns whether the kubelet's list is needed, and the time of the next review.
    pub(crate) fn observe(
        self,
        lingers: &mut Lingers,
        actions: &mut Vec<Action>,
    ) -> (bool, Option<Timestamp>) {
        let Some(view) = self.view.filter(|_| self.mode == Mode::Observe) else {
            return (false, None);
        };
        self.forget_ended(lingers);
        let wake = self.review_inbound(view, lingers, actions);
        if view.plan.tuning.linger == LingerKind::No {
            return (false, wake);
        }
        if self.app_runs(view) {
            self.sample_stopped(view, lingers, actions);
            return (self.record_ends(view, lingers), wake);
        }
        self.report_ends(view, lingers, actions);
        (false, wake)
    }

    /// The stop signal of a container was probably sent. Returns whether the kubelet's list is needed: it shows whether
    /// the pod is being deleted.
    pub(super) fn stop_observed(
        self,
        id: &ContainerId,
        is_app: bool,
        lingers: &mut Lingers,
    ) -> bool {
        let is_known = lingers.runs.contains_key(id) || (is_app && lingers.inbound.is_some());
        if self.mode != Mode::Observe || is_known {
            return false;
        }
        let is_deletion = self.is_deletion();
        if is_app {
            lingers.inbound = Some(Inbound::new(id.clone(), self.now, is_deletion));
        } else {
            let observed = Observed {
                since: self.now,
                ended: None,
                is_deletion,
                is_sampled: false,
                connections: None,
            };
            lingers
                .runs
                .insert(id.clone(), Progress::Observed(observed));
        }
        is_deletion.is_none()
    }

    /// The kubelet lists a deletion before it sends the stop signals.
    fn is_deletion(self) -> Option<bool> {
        self.spec.is_some_and(|spec| spec.deleting).then_some(true)
    }

    /// Requests the next sample of an app's traffic if it is due. Returns the time of the next review.
    fn review_inbound(
        self,
        view: &PodView,
        lingers: &mut Lingers,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        let inbound = lingers.inbound.as_mut()?;
        let is_last = !self.app_runs(view);
        let ended = is_last.then(|| self.last_app_end(view).unwrap_or(self.now));
        match inbound.due(self.now, ended) {
            Due::Now => {
                let app = inbound.app.clone();
                if self.runs.iter().any(|(_id, run)| run.lives()) {
                    actions.push(self.sample(view, &app));
                } else {
                    // The network namespace of the pod has ended with its last container.
                    self.observed_sample(&app, None, lingers, actions);
                }
                None
            }
            Due::At(next) => Some(next),
            Due::Never => None,
        }
    }

    /// Requests a sample of the connections of each sidecar with a stop signal that was sent now.
    fn sample_stopped(self, view: &PodView, lingers: &mut Lingers, actions: &mut Vec<Action>) {
        for (id, progress) in &mut lingers.runs {
            if let Progress::Observed(observed) = progress
                && !observed.is_sampled
            {
                observed.is_sampled = true;
                // The sockets of a hostNetwork pod are the node's.
                if !view.spec.host_network {
                    actions.push(self.sample(view, id));
                }
            }
        }
    }

    pub(super) fn sample(self, view: &PodView, id: &ContainerId) -> Action {
        let sidecars = view.plan.sidecars.iter();
        let mut status_ports: Vec<u16> = sidecars.flat_map(Sidecar::status_ports).collect();
        status_ports.sort_unstable();
        status_ports.dedup();
        let key = ContainerKey {
            pod: self.uid.clone(),
            id: id.clone(),
        };
        Action::SampleTraffic { key, status_ports }
    }

    /// The sockets of a pod in observe mode were read, or could not be.
    pub(super) fn observed_sample(
        self,
        id: &ContainerId,
        sample: Option<Sample>,
        lingers: &mut Lingers,
        actions: &mut Vec<Action>,
    ) {
        match (&mut lingers.inbound, lingers.runs.get_mut(id)) {
            (_, Some(Progress::Observed(observed))) => {
                observed.connections = sample.map(|sample| sample.internal);
            }
            (Some(inbound), _) if *id == inbound.app => {
                let kind = inbound.sampled(self.now, sample);
                let report = |kind| Action::report(self.uid, self.spec, self.name(id), kind, None);
                actions.extend(kind.map(report));
            }
            _ => {}
        }
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
            if let Some(progress) = lingers.runs.get_mut(id) {
                if let Progress::Observed(observed) = progress {
                    observed.ended = Some(at);
                }
                continue;
            }
            if longest(&view.spec, &view.plan, sidecar).is_err() {
                continue;
            }
            let is_deletion = self.is_deletion();
            let observed = Observed {
                since: at,
                ended: Some(at),
                is_deletion,
                is_sampled: true,
                connections: None,
            };
            lingers
                .runs
                .insert(id.clone(), Progress::Observed(observed));
            is_query |= is_deletion.is_none();
        }
        is_query
    }

    fn report_ends(self, view: &PodView, lingers: &mut Lingers, actions: &mut Vec<Action>) {
        let Some(last) = self.last_app_end(view) else {
            return;
        };
        for (id, progress) in &mut lingers.runs {
            let Progress::Observed(Observed {
                ended: Some(at),
                is_deletion: Some(is_deletion),
                connections,
                ..
            }) = *progress
            else {
                continue;
            };
            *progress = Progress::Over;
            let ended_before = last.since(at);
            if is_deletion && ended_before >= NOTABLE {
                let kind = Kind::WouldLinger {
                    ended_before,
                    connections,
                };
                actions.push(view.report(self.name(id), kind));
            }
        }
    }

    pub(super) fn last_app_end(self, view: &PodView) -> Option<Timestamp> {
        let apps = view.plan.apps(&view.spec);
        apps.filter_map(|app| self.runs.newest(&app.name)?.1.ended_at())
            .max()
    }
}
