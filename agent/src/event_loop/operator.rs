//! Requests of operators about one pod.

use std::{mem, time::Instant};

use tokio::sync::oneshot;
use usher_core::{
    Event,
    admin::{Forecast, LONGEST_BUSY, OperatorReply, PlannedTable},
    base::id::PodUid,
    decision::Verb,
    engine::request::{Answer, OperatorRequest, Refused},
    settings::mode::Mode,
};

use super::NodeLoop;

#[derive(Debug)]
pub(crate) enum AdminRequest {
    Operator(OperatorRequest, oneshot::Sender<OperatorReply>),
    /// What the agent would do with a pod, in this mode or the Node's; None for an unknown pod.
    Forecast(PodUid, Option<Mode>, oneshot::Sender<Option<Forecast>>),
    Table(PodUid, oneshot::Sender<PlannedTable>),
}

/// A request that arrived while the pod's ports were being held or released.
#[derive(Debug)]
pub(super) struct BusyRequest {
    request: OperatorRequest,
    until: Instant,
    reply: oneshot::Sender<OperatorReply>,
}

/// A request for a hold that was accepted.
#[derive(Debug)]
pub(super) struct PendingHold {
    pod: PodUid,
    done: OperatorReply,
    failed: OperatorReply,
    reply: oneshot::Sender<OperatorReply>,
}

impl NodeLoop {
    /// Replies to a request. Sending fails if the client has stopped waiting.
    pub(super) fn reply(&mut self, request: AdminRequest) {
        let now = self.now();
        match request {
            AdminRequest::Operator(request, reply) => {
                let _entered = self.pod_span(&request.pod).entered();
                tracing::info!(
                    request = request.verb.into_str(),
                    by = %request.requester,
                    dry_run = request.dry_run,
                    "received an operator's request"
                );
                self.carry_out(request, Instant::now() + LONGEST_BUSY, reply);
            }
            AdminRequest::Forecast(uid, mode, reply) => {
                drop(reply.send(self.engine.forecast(now, &uid, mode)));
            }
            AdminRequest::Table(uid, reply) => {
                let wanted = self.engine.table(now, &uid);
                drop(reply.send(PlannedTable { wanted }));
            }
        }
    }

    /// Retries the requests whose pod was busy. Runs after each event, because an event ends a change of a hold.
    pub(super) fn retry_busy_requests(&mut self) {
        for BusyRequest {
            request,
            until,
            reply,
        } in mem::take(&mut self.busy_requests)
        {
            self.carry_out(request, until, reply);
        }
    }

    /// When the first waiting request is refused.
    pub(super) fn busy_requests_due(&self) -> Option<Instant> {
        self.busy_requests.iter().map(|waiting| waiting.until).min()
    }

    fn carry_out(
        &mut self,
        request: OperatorRequest,
        until: Instant,
        reply: oneshot::Sender<OperatorReply>,
    ) {
        let _entered = self.pod_span(&request.pod).entered();
        // The operator believes that the request failed.
        if reply.is_closed() {
            tracing::info!("dropped an operator's request: its client has stopped waiting");
            return;
        }
        let OperatorRequest {
            pod, verb, dry_run, ..
        } = request.clone();
        let failed = || Answer::Refused(Refused::Failed);
        let answer = self.step(Event::Operator(request.clone()));
        let answer = answer.unwrap_or_else(failed);
        if matches!(answer, Answer::Refused(Refused::Busy)) && Instant::now() < until {
            self.busy_requests.push(BusyRequest {
                request,
                until,
                reply,
            });
            return;
        }
        let name = self
            .engine
            .pod_name(&pod)
            .unwrap_or_else(|| pod.to_string());
        let reply_with = |answer| OperatorReply::new(&name, verb.into_str(), dry_run, answer);
        if verb == Verb::Hold && !dry_run && matches!(answer, Answer::Taken(_)) {
            // The hold may still fail while the namespace is opened and the table is installed.
            self.pending_holds.push(PendingHold {
                pod,
                done: reply_with(answer),
                failed: reply_with(failed()),
                reply,
            });
            self.settle_holds();
        } else {
            drop(reply.send(reply_with(answer)));
        }
    }

    /// Replies to requests for a hold that is now established or has failed.
    pub(super) fn settle_holds(&mut self) {
        for hold in mem::take(&mut self.pending_holds) {
            let outcome = match self.engine.hold_came_about(&hold.pod) {
                None => {
                    self.pending_holds.push(hold);
                    continue;
                }
                Some(true) => hold.done,
                Some(false) => hold.failed,
            };
            drop(hold.reply.send(outcome));
        }
    }
}
