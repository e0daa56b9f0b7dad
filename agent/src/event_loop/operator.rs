//! Requests of operators about one pod.

use tokio::sync::oneshot;
use usher_core::{
    Event,
    admin::{Forecast, Ordered, PlannedTable},
    base::id::PodUid,
    decision::Verb,
    engine::request::{Answer, Order, Refused},
    settings::mode::Mode,
};

use super::NodeLoop;

#[derive(Debug)]
pub(crate) enum OperatorRequest {
    Order(Order, oneshot::Sender<Ordered>),
    /// What the agent would do with a pod, in this mode or the Node's; None for an unknown pod.
    Forecast(PodUid, Option<Mode>, oneshot::Sender<Option<Forecast>>),
    /// The table that a pod's network namespace is to have.
    Table(PodUid, oneshot::Sender<PlannedTable>),
}

impl NodeLoop {
    /// A client that has stopped waiting gets no reply.
    pub(super) fn reply(&mut self, request: OperatorRequest) {
        let now = self.now();
        match request {
            OperatorRequest::Order(order, reply) => drop(reply.send(self.order(order))),
            OperatorRequest::Forecast(uid, mode, reply) => {
                drop(reply.send(self.engine.forecast(now, &uid, mode)));
            }
            OperatorRequest::Table(uid, reply) => {
                let wanted = self.engine.table(now, &uid);
                drop(reply.send(PlannedTable::of(wanted.as_ref())));
            }
        }
    }

    fn order(&mut self, order: Order) -> Ordered {
        let _entered = self.pod_span(&order.pod).entered();
        tracing::info!(
            order = order.verb.as_str(),
            by = %order.requester,
            dry_run = order.dry_run,
            "received an operator's request"
        );
        let Order {
            pod, verb, dry_run, ..
        } = order.clone();
        let failed = || Answer::Refused(Refused::Failed);
        let mut answer = self.step(Event::Ordered(order)).unwrap_or_else(failed);
        // The gate is armed by now, unless its namespace cannot be opened or its table cannot be created.
        let holds = verb == Verb::Hold && !dry_run && matches!(answer, Answer::Taken(_));
        if holds && !self.engine.hold_came_about(&pod) {
            answer = failed();
        }
        let name = self
            .engine
            .pod_name(&pod)
            .unwrap_or_else(|| pod.to_string());
        Ordered::new(&name, verb.as_str(), dry_run, answer)
    }
}
