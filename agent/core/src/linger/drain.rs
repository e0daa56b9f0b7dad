//! Drain of inbound connections while a sidecar lingers, as its mesh begins it on the stop signal: clients move to other pods
//! in time, and the apps still reach the mesh.

use super::{
    review::LingerReview,
    state::{Lingers, Progress},
};
use crate::{
    base::id::{ContainerId, ContainerKey},
    decision::Kind,
    engine::action::Action,
    plan::Sidecar,
    pod::view::PodView,
    quit::outcome::Outcome,
};

impl LingerReview<'_> {
    /// Drains the sidecars with a stop signal that waits, once it is known that their pod is being deleted.
    pub(super) fn drain_held(self, lingers: &mut Lingers, actions: &mut Vec<Action>) {
        let Some(view) = self.view.filter(|view| view.spec.deleting) else {
            return;
        };
        let Lingers { runs, drains, .. } = lingers;
        for (id, progress) in runs {
            let is_waiting = matches!(progress, Progress::Held(held) if held.why.is_none());
            let sidecar = is_waiting.then(|| self.sidecar(view, id)).flatten();
            let Some(request) = sidecar.and_then(|sidecar| sidecar.drain.as_ref()) else {
                continue;
            };
            if drains.contains_key(id) {
                continue;
            }
            drains.insert(id.clone(), request.clone());
            actions.push(Action::Drain {
                key: ContainerKey {
                    pod: self.uid.clone(),
                    id: id.clone(),
                },
                request: request.clone(),
                timeout: view.config.ladder.attempt,
            });
        }
    }

    /// The report of a drain. A failed one is not repeated: it costs the pod nothing.
    pub(crate) fn drained(
        self,
        id: &ContainerId,
        outcome: Outcome,
        lingers: &Lingers,
    ) -> Option<Action> {
        let request = lingers.drains.get(id)?.clone();
        let run = self.runs.get(id)?;
        let kind = match outcome {
            Outcome::Accepted => Kind::LingerDrained { request },
            outcome => Kind::LingerDrainFailed { request, outcome },
        };
        let name = self.runs.name_of(id, run);
        Some(Action::report(self.uid, self.spec, name, kind, None))
    }

    pub(super) fn sidecar<'view>(
        self,
        view: &'view PodView,
        id: &ContainerId,
    ) -> Option<&'view Sidecar> {
        let name = self.name(id)?;
        let mut sidecars = view.plan.sidecars.iter();
        sidecars.find(|sidecar| sidecar.name == name)
    }
}
