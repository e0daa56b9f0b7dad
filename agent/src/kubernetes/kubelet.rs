//! Lists the kubelet's pods for the engine, and reports when that fails.

use std::time::{Duration, Instant};

use usher_client::{
    error_chain::chain,
    kubelet::{self, BadSetting},
    node_args::KubeletArgs,
};
use usher_core::{
    kube_event::NodeCondition,
    metric::value::{KubeletResult, Value},
    pod::list::PodList,
    recipe::Reads,
};

use crate::telemetry::reporter::Reporter;

/// A kubelet that is unreachable for longer than a restart takes is worth an Event.
const RESTART: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Kubelet {
    client: kubelet::Kubelet,
    reporter: Reporter,
    /// The kind of the last request's error.
    failing: Option<KubeletResult>,
    failing_since: Option<FailingSince>,
}

#[derive(Debug, Clone, Copy)]
struct FailingSince {
    start: Instant,
    reported: bool,
}

impl Kubelet {
    pub(crate) fn new(args: &KubeletArgs, reporter: Reporter) -> Result<Self, BadSetting> {
        Ok(Self {
            client: kubelet::Kubelet::new(args)?,
            reporter,
            failing: None,
            failing_since: None,
        })
    }

    /// Lists the pods, and keeps the fields of them that `reads` names. Reports a failure, and returns None.
    pub(crate) async fn pods(&mut self, reads: &Reads) -> Option<PodList> {
        let start = Instant::now();
        let listed = self.client.pods(reads).await;
        let took = start.elapsed();
        let metrics = &self.reporter.metrics;
        metrics.kubelet_request.observe(took.as_secs_f64());
        match listed {
            Ok(list) => {
                metrics.kubelet_requests.inc(&KubeletResult::Ok);
                self.succeeded(&list, took);
                Some(list)
            }
            Err(error) => {
                metrics.kubelet_requests.inc(&error.kind());
                self.failed(start, &error);
                None
            }
        }
    }

    fn succeeded(&mut self, list: &PodList, took: Duration) {
        self.failing_since = None;
        self.reporter.health.set_kubelet(None);
        for bad in &list.bad {
            self.reporter.metrics.kubelet_bad_pods.inc();
            tracing::warn!(error = %chain(bad), "skipped an invalid pod of the kubelet's list");
        }
        let pods = list.pods.len();
        match self.failing.take() {
            Some(kind) => {
                tracing::info!(pods, kind = kind.name(), "listed the kubelet's pods again");
            }
            None => {
                let took_ms = took.as_millis();
                tracing::debug!(pods, took_ms, "listed the kubelet's pods");
            }
        }
    }

    fn failed(&mut self, now: Instant, error: &kubelet::Error) {
        let kind = error.kind();
        let error = chain(error);
        self.reporter.health.set_kubelet(Some(&error));
        self.report_failure(now, &error);
        // A warning for the first failure of its kind.
        if self.failing.replace(kind) == Some(kind) {
            tracing::debug!(
                error,
                kind = kind.name(),
                "could not list the kubelet's pods again"
            );
        } else {
            tracing::warn!(
                error,
                kind = kind.name(),
                "could not list the kubelet's pods, retrying; the last list stays in use"
            );
        }
    }

    fn report_failure(&mut self, now: Instant, error: &str) {
        let failing = self.failing_since.get_or_insert(FailingSince {
            start: now,
            reported: false,
        });
        if !failing.reported && now >= failing.start + RESTART {
            failing.reported = true;
            let condition = NodeCondition::KubeletUnreachable(error.to_owned());
            self.reporter.events.send_node(&condition);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use usher_core::kube_event::Reason;

    use super::*;
    use crate::{args::Args, kubernetes::events::EventPublisher, telemetry::metrics::Metrics};

    #[test]
    fn unreachable_kubelet_is_reported_once() {
        let args = Args::parse_from(["usher-agent", "--node-name", "node-1"]);
        let args = args.node.kubelet;
        let metrics = Arc::new(Metrics::new());
        let (events, mut publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
        let mut kubelet = Kubelet::new(&args, Reporter::new(metrics, events)).unwrap();
        let now = Instant::now();
        kubelet.report_failure(now, "refused");
        kubelet.report_failure(now + RESTART / 2, "refused");
        assert_eq!(publisher.reasons(), []);
        kubelet.report_failure(now + RESTART, "refused");
        kubelet.report_failure(now + RESTART * 2, "refused");
        assert_eq!(publisher.reasons(), [Reason::KubeletUnreachable]);
    }
}
