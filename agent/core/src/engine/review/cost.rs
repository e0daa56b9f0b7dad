//! The costs of sidecars that outlive their apps: what the reviews of pods add to them.

use std::collections::BTreeMap;

use super::Engine;
use crate::{
    Action, Decision,
    admin::NamespaceCost,
    base::{id::PodUid, time::Timestamp},
    cost,
    pod::{state::Tracked, view::PodView},
};

impl Engine {
    /// The costs by Namespace since the start, those of this moment included.
    pub fn costs(&self, now: Timestamp) -> Vec<NamespaceCost> {
        let mut ledger = self.costs.clone();
        for tracked in self.pods.values().filter(|pod| pod.present) {
            let Some(view) = tracked.view(now, self.modes, &self.config) else {
                continue;
            };
            let pending = tracked.cost.pending(&view, &tracked.runs);
            ledger.add(&view.spec.namespace, &pending);
        }
        ledger.costs()
    }

    pub(in crate::engine) fn review_cost(&mut self, view: &PodView) {
        let Some(tracked) = self.pods.get_mut(&view.uid) else {
            return;
        };
        let Tracked { runs, cost, .. } = &mut **tracked;
        let new = cost.review(view, runs);
        self.costs.add(&view.spec.namespace, &new);
        cost.query(view, runs, &mut self.kubelet_poll);
    }

    /// Completes the costs of a pod that is gone.
    pub(in crate::engine) fn close_cost(&mut self, uid: &PodUid) {
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        let Some(view) = tracked.view(self.now, self.modes, &self.config) else {
            return;
        };
        let Tracked { runs, cost, .. } = &mut **tracked;
        let last = cost.close(&view, runs);
        self.costs.add(&view.spec.namespace, &last);
    }

    /// Adds the connections that the decisions among these actions report.
    pub(in crate::engine) fn count_connections(&mut self, actions: &[Action]) {
        let mut pods: BTreeMap<&PodUid, NamespaceCost> = BTreeMap::new();
        for action in actions {
            if let Action::Report(Decision { pod, kind, .. }) = action {
                cost::count_connections(pods.entry(pod).or_default(), kind);
            }
        }
        for (uid, connections) in pods {
            if let Some(spec) = self.pods.get(uid).and_then(|pod| pod.spec.as_ref()) {
                self.costs.add(&spec.namespace, &connections);
            }
        }
    }
}
