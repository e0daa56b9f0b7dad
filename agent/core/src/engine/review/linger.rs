//! The stop signals of sidecars that linger.

use super::Engine;
use crate::{
    base::{
        id::{ContainerKey, PodUid},
        time::Timestamp,
    },
    engine::{
        action::Action,
        request::{Answer, OperatorRequest, Taken},
    },
    linger::{
        Released, StopResult, pre_stop::traffic::Sample, review::LingerReview, state::Lingers,
    },
    pod::{state::Tracked, view::PodView},
    quit::outcome::Outcome,
};

impl Engine {
    pub(in crate::engine) fn review_linger(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        view: Option<&PodView>,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        let (review, lingers) = self.linger_review(now, uid, view)?;
        let wake = review.review(lingers, actions);
        let (is_query, next) = review.observe(lingers, actions);
        let is_waiting = lingers.is_waiting();
        if is_query {
            self.kubelet_poll.request(now);
        }
        if is_waiting {
            self.kubelet_poll.recheck(now);
        }
        wake.into_iter().chain(next).min()
    }

    /// Applies what the holder reports about the stop signal of one container.
    pub(in crate::engine) fn stop_reported(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        name: &str,
        result: StopResult,
        actions: &mut Vec<Action>,
    ) {
        let Some((review, lingers)) = self.linger_review(now, &key.pod, None) else {
            return;
        };
        if review.reported(&key.id, name, result, lingers, actions) {
            self.kubelet_poll.request(now);
        }
        self.review_pod(now, &key.pod, actions);
    }

    pub(in crate::engine) fn traffic_sampled(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        sample: Result<Sample, String>,
        actions: &mut Vec<Action>,
    ) {
        let Some((review, lingers)) = self.linger_review(now, &key.pod, None) else {
            return;
        };
        review.sampled(&key.id, sample, lingers, actions);
        self.review_pod(now, &key.pod, actions);
    }

    /// Reports whether a sidecar that lingers drains its inbound connections.
    pub(in crate::engine) fn drained(
        &mut self,
        key: &ContainerKey,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        if let Some((review, lingers)) = self.linger_review(self.now, &key.pod, None) {
            actions.extend(review.drained(&key.id, outcome, lingers));
        }
    }

    /// Releases the stop signals of a pod; None where none is held.
    pub(in crate::engine) fn operator_release_stops(
        &mut self,
        request: &OperatorRequest,
        view: &PodView,
        actions: &mut Vec<Action>,
    ) -> Option<Answer> {
        let lingers = &mut self.pod_mut(&request.pod).linger;
        if !lingers.release(Released::ByOperator) {
            return None;
        }
        let taken = Taken {
            message: "its containers receive their stop signals now".to_owned(),
            ..Taken::default()
        };
        actions.push(crate::engine::operator::accepted(view, request, &taken));
        self.review_pod(view.now, &request.pod, actions);
        Some(Answer::Taken(taken))
    }

    fn linger_review<'engine>(
        &'engine mut self,
        now: Timestamp,
        uid: &PodUid,
        view: Option<&'engine PodView>,
    ) -> Option<(LingerReview<'engine>, &'engine mut Lingers)> {
        let tracked = self.pods.get_mut(uid).filter(|_| self.walked)?;
        let Tracked {
            uid,
            spec,
            runs,
            linger,
            ..
        } = &mut **tracked;
        let review = LingerReview {
            uid,
            view,
            spec: spec.as_deref(),
            runs,
            mode: self.modes.linger,
            now,
        };
        Some((review, linger))
    }
}
