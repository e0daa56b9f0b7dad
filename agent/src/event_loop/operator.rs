//! What people order by hand, and ask of single pods.

use tokio::sync::oneshot;
use usher_core::{
    Event,
    admin::{Forecast, Ordered, PlannedTable},
    base::{id::PodUid, time::Timestamp},
    engine::request::{Answer, Order, Refused, Wish},
    settings::mode::Mode,
};

use super::NodeLoop;

/// What a person wants of the loop.
#[derive(Debug)]
pub(crate) enum Person {
    /// To have something done.
    Order(Order, oneshot::Sender<Ordered>),
    /// To know what would be done with a pod, in this mode or the node's; None where nobody knows the pod.
    Forecast(PodUid, Option<Mode>, oneshot::Sender<Option<Forecast>>),
    /// To know the table that is to be in a pod's network namespace.
    Table(PodUid, oneshot::Sender<PlannedTable>),
}

impl NodeLoop {
    /// Whoever asked may have stopped waiting.
    pub(super) fn answer(&mut self, person: Person) {
        let now = Timestamp::new(self.begin.elapsed());
        match person {
            Person::Order(order, answer) => drop(answer.send(self.order(order))),
            Person::Forecast(uid, mode, answer) => {
                drop(answer.send(self.engine.forecast(now, &uid, mode)));
            }
            Person::Table(uid, answer) => {
                let wanted = self.engine.table(now, &uid);
                drop(answer.send(PlannedTable::of(wanted.as_ref())));
            }
        }
    }

    fn order(&mut self, order: Order) -> Ordered {
        tracing::info!(
            order = order.wish.as_str(),
            uid = %order.pod,
            by = %order.by,
            dry_run = order.dry_run,
            "was given an order"
        );
        let Order {
            pod, wish, dry_run, ..
        } = order.clone();
        self.reply = None;
        self.step(Event::Ordered(order));
        let mut answer = self
            .reply
            .take()
            .unwrap_or(Answer::Refused(Refused::Failed));
        // A namespace that cannot be opened, a table that cannot be made: known by now.
        let holds = wish == Wish::Hold && !dry_run && matches!(answer, Answer::Taken(_));
        if holds && !self.engine.hold_came_about(&pod) {
            answer = Answer::Refused(Refused::Failed);
        }
        let name = self
            .engine
            .pod_name(&pod)
            .unwrap_or_else(|| pod.to_string());
        Ordered::new(&name, wish.as_str(), dry_run, answer)
    }
}
