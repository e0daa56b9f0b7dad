//! Events: what users of the cluster are told, with `kubectl describe`.
//!
//! Whoever knows something worth one has a [`Teller`], which never waits. One task sends them, one at a
//! time, as the core's queue says ([`usher_core::kube_event::Queue`]): limited, counted where they repeat,
//! kept while the API server is away. What is kept is in memory: an agent that ends has told what it could.

mod send;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use kube::Client;
use tokio::sync::mpsc;
use usher_client::crash_point;
use usher_core::{
    base::time::Timestamp,
    kube_event::{ApiRequest, ApiResult, Next, NodeCondition, Notice, Queue},
    metric::value::Told,
};

use crate::telemetry::metrics::Metrics;

/// What may wait until the queue takes it; the queue has its own bounds.
const CHANNEL: usize = 1024;

/// Tells what is worth an Event. Without an API server nobody is told.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    node: Arc<str>,
    notices: Option<mpsc::Sender<Notice>>,
    lost: Arc<AtomicU64>,
}

/// Sends what [`Teller`]s tell.
#[derive(Debug)]
pub(crate) struct Events {
    notices: mpsc::Receiver<Notice>,
    lost: Arc<AtomicU64>,
    queue: Queue,
    teller: Teller,
    metrics: Arc<Metrics>,
    begin: Instant,
    /// Of those that were lost, what the metrics know.
    counted: u64,
    failing: bool,
}

impl Teller {
    /// One that tells nobody.
    pub(crate) fn mute(node: &str) -> Self {
        Self {
            node: node.into(),
            notices: None,
            lost: Arc::default(),
        }
    }

    /// The Node that it is about.
    pub(crate) fn node_name(&self) -> &str {
        &self.node
    }

    /// Whether anybody is told.
    pub(crate) const fn is_heard(&self) -> bool {
        self.notices.is_some()
    }

    /// Tells something.
    pub(crate) fn tell(&self, notice: Notice) {
        let Some(notices) = &self.notices else {
            return;
        };
        if notices.try_send(notice).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells something about the node.
    pub(crate) fn node(&self, condition: &NodeCondition) {
        if self.is_heard() {
            self.tell(condition.notice(&self.node, now_us()));
        }
    }
}

impl Events {
    /// For a Node of this name.
    pub(crate) fn new(node: &str, metrics: Arc<Metrics>) -> (Teller, Self) {
        let (sender, notices) = mpsc::channel(CHANNEL);
        let lost = Arc::new(AtomicU64::new(0));
        let teller = Teller {
            node: node.into(),
            notices: Some(sender),
            lost: Arc::clone(&lost),
        };
        let events = Self {
            notices,
            lost,
            queue: Queue::new(node.to_owned()),
            teller: teller.clone(),
            metrics,
            begin: Instant::now(),
            counted: 0,
            failing: false,
        };
        (teller, events)
    }

    /// The reasons of what was told since this was asked last.
    #[cfg(test)]
    pub(crate) fn reasons(&mut self) -> Vec<usher_core::kube_event::Reason> {
        let told = std::iter::from_fn(|| self.notices.try_recv().ok());
        told.map(|notice| notice.reason).collect()
    }

    /// Sends for ever.
    pub(crate) async fn serve(mut self, client: Client) {
        loop {
            self.count();
            match self.queue.next(self.now()) {
                Next::Send(order) => self.send(&client, &order).await,
                Next::At(then) => {
                    let then = self.begin + then.since_start();
                    tokio::select! {
                        () = tokio::time::sleep_until(then.into()) => {}
                        Some(notice) = self.notices.recv() => self.offer(notice),
                    }
                }
                // This has a Teller itself, so there is always somebody who may tell.
                Next::Nothing => {
                    if let Some(notice) = self.notices.recv().await {
                        self.offer(notice);
                    }
                }
            }
        }
    }

    async fn send(&mut self, client: &Client, order: &ApiRequest) {
        crash_point::reach("event-due", "");
        let sent = send::send(client, order);
        tokio::pin!(sent);
        let outcome = loop {
            tokio::select! {
                outcome = &mut sent => break outcome,
                // Nobody has to wait for the server.
                Some(notice) = self.notices.recv() => {
                    self.offer(notice);
                    self.count();
                }
            }
        };
        crash_point::reach("event-answered", "");
        match &outcome {
            Ok(()) => {
                self.metrics.events.inc(&Told::Sent);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("Events are sent again");
                }
            }
            Err(send::Error {
                answer: ApiResult::Retry(_),
                why,
                is_refusal,
            }) => {
                if *is_refusal {
                    self.metrics.events.inc(&Told::Failed);
                }
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(error = why, "could not send an Event; keeping it for later");
                }
            }
            Err(send::Error {
                answer: ApiResult::Gone,
                why,
                ..
            }) => {
                self.metrics.events.inc(&Told::Dropped);
                tracing::debug!(error = why, "dropped an Event about something that is gone");
            }
            Err(send::Error { why, .. }) => {
                self.metrics.events.inc(&Told::Failed);
                tracing::warn!(
                    error = why,
                    event = order.name,
                    "the API server does not take an Event"
                );
            }
        }
        let answer = outcome.map_or_else(|error| error.answer, |()| ApiResult::Accepted);
        self.queue.complete(self.now(), answer);
        if let Some(lost) = self.queue.take_dropped_report(self.now()) {
            tracing::warn!(lost, "lost Events");
            self.teller.node(&NodeCondition::EventsDropped(lost));
        }
    }

    fn offer(&mut self, notice: Notice) {
        self.queue.offer(self.now(), notice);
    }

    fn count(&mut self) {
        self.queue.add_dropped(self.lost.swap(0, Ordering::Relaxed));
        let dropped = self.queue.dropped();
        self.metrics
            .events
            .add(&Told::Dropped, dropped - self.counted);
        self.counted = dropped;
        let queued = i64::try_from(self.queue.len()).unwrap_or(i64::MAX);
        self.metrics.events_queued.set(queued);
    }

    fn now(&self) -> Timestamp {
        Timestamp::new(self.begin.elapsed())
    }
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_teller_never_waits_and_counts_what_is_lost() {
        let (teller, mut events) = Events::new("node-1", Arc::new(Metrics::new()));
        for _ in 0..CHANNEL + 7 {
            teller.node(&NodeCondition::StartHolderFailed);
        }
        assert_eq!(events.reasons().len(), CHANNEL);
        events.count();
        assert_eq!(events.queue.dropped(), 7);
        let text = events
            .metrics
            .text(crate::telemetry::metrics::Format::OpenMetrics);
        let counted = "usher_events_total{result=\"dropped\"} 7";
        assert!(text.contains(counted), "{text}");
        Teller::mute("node-1").node(&NodeCondition::StartHolderFailed);
    }
}
