//! Requests of operators about one pod.

use std::{mem, time::Instant};

use tokio::sync::oneshot;
use usher_core::{
    Event,
    admin::{Forecast, LONGEST_BUSY, Ordered, PlannedTable},
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
    Table(PodUid, oneshot::Sender<PlannedTable>),
}

/// A request that arrived while the pod's ports were being held or released.
#[derive(Debug)]
pub(super) struct BusyOrder {
    order: Order,
    until: Instant,
    reply: oneshot::Sender<Ordered>,
}

/// A request for a hold that was accepted.
#[derive(Debug)]
pub(super) struct PendingHold {
    pod: PodUid,
    done: Ordered,
    failed: Ordered,
    reply: oneshot::Sender<Ordered>,
}

impl NodeLoop {
    /// Replies to a request. Sending fails if the client has stopped waiting.
    pub(super) fn reply(&mut self, request: OperatorRequest) {
        let now = self.now();
        match request {
            OperatorRequest::Order(order, reply) => {
                let _entered = self.pod_span(&order.pod).entered();
                tracing::info!(
                    order = order.verb.into_str(),
                    by = %order.requester,
                    dry_run = order.dry_run,
                    "received an operator's request"
                );
                self.order(order, Instant::now() + LONGEST_BUSY, reply);
            }
            OperatorRequest::Forecast(uid, mode, reply) => {
                drop(reply.send(self.engine.forecast(now, &uid, mode)));
            }
            OperatorRequest::Table(uid, reply) => {
                let wanted = self.engine.table(now, &uid);
                drop(reply.send(PlannedTable { wanted }));
            }
        }
    }

    /// Retries the requests whose pod was busy. Runs after each event, because an event ends a change of a hold.
    pub(super) fn retry_orders(&mut self) {
        for BusyOrder {
            order,
            until,
            reply,
        } in mem::take(&mut self.busy_orders)
        {
            self.order(order, until, reply);
        }
    }

    /// When the first waiting request is refused.
    pub(super) fn orders_due(&self) -> Option<Instant> {
        self.busy_orders.iter().map(|waiting| waiting.until).min()
    }

    fn order(&mut self, order: Order, until: Instant, reply: oneshot::Sender<Ordered>) {
        let _entered = self.pod_span(&order.pod).entered();
        // The operator believes that the request failed.
        if reply.is_closed() {
            tracing::info!("dropped an operator's request: its client has stopped waiting");
            return;
        }
        let Order {
            pod, verb, dry_run, ..
        } = order.clone();
        let failed = || Answer::Refused(Refused::Failed);
        let answer = self.step(Event::Ordered(order.clone()));
        let answer = answer.unwrap_or_else(failed);
        if matches!(answer, Answer::Refused(Refused::Busy)) && Instant::now() < until {
            self.busy_orders.push(BusyOrder {
                order,
                until,
                reply,
            });
            return;
        }
        let name = self
            .engine
            .pod_name(&pod)
            .unwrap_or_else(|| pod.to_string());
        let ordered = |answer| Ordered::new(&name, verb.into_str(), dry_run, answer);
        if verb == Verb::Hold && !dry_run && matches!(answer, Answer::Taken(_)) {
            // The hold may still fail while the namespace is opened and the table is installed.
            self.pending_holds.push(PendingHold {
                pod,
                done: ordered(answer),
                failed: ordered(failed()),
                reply,
            });
            self.settle_holds();
        } else {
            drop(reply.send(ordered(answer)));
        }
    }

    /// Replies to requests for a hold that is now established or has failed.
    pub(super) fn settle_holds(&mut self) {
        for hold in mem::take(&mut self.pending_holds) {
            let ordered = match self.engine.hold_came_about(&hold.pod) {
                None => {
                    self.pending_holds.push(hold);
                    continue;
                }
                Some(true) => hold.done,
                Some(false) => hold.failed,
            };
            drop(hold.reply.send(ordered));
        }
    }
}
