//! Kubernetes Events, which users see with `kubectl describe`.
//!
//! Components send notices with an [`EventSender`], which never waits. One task, the [`EventPublisher`], posts them one
//! by one from a queue ([`usher_core::kube_event::Queue`]). The queue limits their rate, aggregates repetitions, and
//! keeps Events in memory while the API server is unreachable.

mod post;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use kube::Client;
use tokio::sync::mpsc;
use usher_client::{crash_point, wall_clock};
use usher_core::{
    base::time::Timestamp,
    kube_event::{ApiRequest, ApiResult, Next, NodeCondition, Notice, Queue},
    metric::value::EventResult,
};

use crate::telemetry::metrics::Metrics;

/// Capacity of the channel to the queue, which has its own limits.
const CHANNEL: usize = 1024;
/// The largest number of failing namespaces that are remembered, so that each is logged once.
const MOST_FAILING: usize = 256;

/// Sends notices to the [`EventPublisher`]. Disabled without an API server.
#[derive(Debug, Clone)]
pub(crate) struct EventSender {
    node: Arc<str>,
    notices: Option<mpsc::Sender<Notice>>,
    lost: Arc<AtomicU64>,
}

/// Posts Events to the API server.
#[derive(Debug)]
pub(crate) struct EventPublisher {
    notices: mpsc::Receiver<Notice>,
    lost: Arc<AtomicU64>,
    queue: Queue,
    sender: EventSender,
    metrics: Arc<Metrics>,
    started: Instant,
    /// Dropped Events that the metrics already include.
    counted: u64,
    /// The namespaces whose last request failed.
    failing: BTreeSet<String>,
}

impl EventSender {
    pub(crate) fn disabled(node: &str) -> Self {
        Self {
            node: node.into(),
            notices: None,
            lost: Arc::default(),
        }
    }

    pub(crate) fn node_name(&self) -> &str {
        &self.node
    }

    pub(crate) const fn is_enabled(&self) -> bool {
        self.notices.is_some()
    }

    pub(crate) fn send(&self, notice: Notice) {
        let Some(notices) = &self.notices else {
            return;
        };
        if notices.try_send(notice).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn send_node(&self, condition: &NodeCondition) {
        if self.is_enabled() {
            self.send(condition.notice(&self.node, now_us()));
        }
    }
}

impl EventPublisher {
    pub(crate) fn new(node: &str, metrics: Arc<Metrics>) -> (EventSender, Self) {
        let (notices, received) = mpsc::channel(CHANNEL);
        let lost = Arc::new(AtomicU64::new(0));
        let sender = EventSender {
            node: node.into(),
            notices: Some(notices),
            lost: Arc::clone(&lost),
        };
        let publisher = Self {
            notices: received,
            lost,
            queue: Queue::new(node.to_owned()),
            sender: sender.clone(),
            metrics,
            started: Instant::now(),
            counted: 0,
            failing: BTreeSet::new(),
        };
        (sender, publisher)
    }

    /// The reasons of the notices sent since the last call.
    #[cfg(test)]
    pub(crate) fn reasons(&mut self) -> Vec<usher_core::kube_event::Reason> {
        std::iter::from_fn(|| self.notices.try_recv().ok())
            .map(|notice| notice.reason)
            .collect()
    }

    /// Runs until the runtime ends.
    pub(crate) async fn run(mut self, client: Client) {
        loop {
            self.count();
            match self.queue.next(self.now()) {
                Next::Send(event) => self.post(&client, &event).await,
                Next::At(then) => {
                    let then = self.started + then.since_start();
                    tokio::select! {
                        () = tokio::time::sleep_until(then.into()) => {}
                        Some(notice) = self.notices.recv() => self.offer(notice),
                    }
                }
                // The channel stays open, because the publisher holds a sender.
                Next::Nothing => {
                    if let Some(notice) = self.notices.recv().await {
                        self.offer(notice);
                    }
                }
            }
        }
    }

    async fn post(&mut self, client: &Client, event: &ApiRequest) {
        crash_point::reach("event-due", "");
        let posted = post::post(client, event);
        tokio::pin!(posted);
        let outcome = loop {
            tokio::select! {
                outcome = &mut posted => break outcome,
                // Read the channel during the request, so that it does not fill up.
                Some(notice) = self.notices.recv() => {
                    self.offer(notice);
                    self.count();
                }
            }
        };
        crash_point::reach("event-answered", "");
        self.report(&outcome, event);
        let result = outcome.map_or_else(|error| error.result, |()| ApiResult::Accepted);
        self.queue.complete(self.now(), result);
        if let Some(lost) = self.queue.take_dropped_report(self.now()) {
            tracing::warn!(lost, "dropped Events");
            self.sender.send_node(&NodeCondition::EventsDropped(lost));
        }
    }

    fn report(&mut self, outcome: &Result<(), post::Error>, event: &ApiRequest) {
        match outcome {
            Ok(()) => {
                self.metrics.events.inc(&EventResult::Sent);
                if self.failing.remove(&event.namespace) {
                    tracing::info!(
                        namespace = event.namespace,
                        "sent an Event again after failures"
                    );
                }
            }
            Err(post::Error {
                result: ApiResult::Retry(_),
                why,
                is_refusal,
            }) => {
                if *is_refusal {
                    self.metrics.events.inc(&EventResult::Failed);
                }
                // Those of namespaces without pods here stay until then.
                if self.failing.len() >= MOST_FAILING {
                    self.failing.clear();
                }
                if self.failing.insert(event.namespace.clone()) {
                    tracing::warn!(
                        error = why,
                        event = event.name,
                        namespace = event.namespace,
                        "could not send an Event; keeping it for later"
                    );
                }
            }
            Err(post::Error {
                result: ApiResult::Gone,
                why,
                ..
            }) => {
                self.metrics.events.inc(&EventResult::Gone);
                tracing::debug!(error = why, "dropped an Event about an object that is gone");
            }
            Err(post::Error { why, .. }) => {
                self.metrics.events.inc(&EventResult::Failed);
                tracing::warn!(
                    error = why,
                    event = event.name,
                    "the API server rejected an Event"
                );
            }
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
            .add(&EventResult::Dropped, dropped - self.counted);
        self.counted = dropped;
        let queued = i64::try_from(self.queue.len()).unwrap_or(i64::MAX);
        self.metrics.events_queued.set(queued);
    }

    fn now(&self) -> Timestamp {
        Timestamp::new(self.started.elapsed())
    }
}

fn now_us() -> u64 {
    u64::try_from(wall_clock::since_epoch().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_never_waits_and_counts_lost_notices() {
        let (sender, mut publisher) = EventPublisher::new("node-1", Arc::new(Metrics::new()));
        for _ in 0..CHANNEL + 7 {
            sender.send_node(&NodeCondition::HolderFailed);
        }
        assert_eq!(publisher.reasons().len(), CHANNEL);
        publisher.count();
        assert_eq!(publisher.queue.dropped(), 7);
        let text = publisher
            .metrics
            .text(crate::telemetry::metrics::Format::OpenMetrics);
        let counted = "usher_events_total{result=\"dropped\"} 7";
        assert!(text.contains(counted), "{text}");
        EventSender::disabled("node-1").send_node(&NodeCondition::HolderFailed);
    }

    #[test]
    fn event_of_a_deleted_namespace_is_not_dropped() {
        let (_sender, mut publisher) = EventPublisher::new("node-1", Arc::new(Metrics::new()));
        let gone = Err(post::Error {
            result: ApiResult::Gone,
            why: "status 404".to_owned(),
            is_refusal: false,
        });
        let event = ApiRequest {
            create: true,
            namespace: "shop".to_owned(),
            name: "job.1".to_owned(),
            body: serde_json::Value::Null,
        };
        publisher.report(&gone, &event);
        publisher.count();
        let text = publisher
            .metrics
            .text(crate::telemetry::metrics::Format::OpenMetrics);
        for counted in [
            "usher_events_total{result=\"gone\"} 1",
            "usher_events_total{result=\"dropped\"} 0",
        ] {
            assert!(text.contains(counted), "{text}");
        }
    }
}
