//! Lists the kubelet's pods for the engine, and reports failures.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use usher_client::{
    error_chain::chain,
    kubelet::{self, BadSetting, CertificateFault},
    node_args::KubeletArgs,
};
use usher_core::{
    kube_event::NodeCondition,
    metric::value::{KubeletResult, PodSkipReason, Value},
    pod::list::{PodList, Selection},
};

use crate::telemetry::reporter::Reporter;

/// The agent sends an Event when the kubelet is unreachable for longer than a restart takes.
const RESTART: Duration = Duration::from_secs(60);
/// Minimum time between two Events about skipped pods.
const SKIPPED_AGAIN: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Kubelet {
    client: kubelet::Kubelet,
    reporter: Reporter,
    /// The kind of the last request's error.
    failing: Option<KubeletResult>,
    failing_since: Option<FailingSince>,
    /// Skipped pods of the last list, as they were logged.
    skipped: BTreeMap<PodSkipReason, usize>,
    skipped_reported: Option<Instant>,
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
            skipped: BTreeMap::new(),
            skipped_reported: None,
        })
    }

    /// Lists the pods. Reports a failure, and returns None.
    pub(crate) async fn pods(&mut self, selection: Selection) -> Option<PodList> {
        let start = Instant::now();
        let listed = self.client.pods(selection).await;
        let took = start.elapsed();
        let metrics = &self.reporter.metrics;
        metrics.kubelet_request.observe(took.as_secs_f64());
        match listed {
            Ok(list) => {
                metrics.kubelet_requests.inc(&KubeletResult::Ok);
                self.succeeded(&list, took);
                self.report_skipped(start, &list);
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
        let pods = list.pods.len();
        match self.failing.take() {
            Some(kind) => {
                tracing::info!(pods, kind = kind.name(), "listed the kubelet's pods again");
            }
            None => {
                let took_ms = took.as_millis();
                let omitted_finished = list.omitted_finished;
                tracing::debug!(pods, omitted_finished, took_ms, "listed the kubelet's pods");
            }
        }
    }

    /// Counts the skipped pods of a list, and reports changed counts.
    fn report_skipped(&mut self, now: Instant, list: &PodList) {
        for (reason, pods) in &list.skipped_counts {
            let pods = u64::try_from(*pods).unwrap_or(u64::MAX);
            self.reporter.metrics.kubelet_skipped_pods.add(reason, pods);
        }
        if self.skipped == list.skipped_counts {
            return;
        }
        self.skipped.clone_from(&list.skipped_counts);
        for skipped in &list.skipped {
            tracing::warn!(
                reason = skipped.reason().name(),
                error = %chain(skipped),
                "skipped a pod of the kubelet's list; usher does not manage it"
            );
        }
        let pods: usize = list.skipped_counts.values().sum();
        let named = list.skipped.len();
        if pods > named {
            tracing::warn!(
                pods,
                named,
                "skipped more pods of the kubelet's list than are named"
            );
        }
        let is_due = |reported| now >= reported + SKIPPED_AGAIN;
        if let Some(example) = list.skipped.first()
            && self.skipped_reported.is_none_or(is_due)
        {
            self.skipped_reported = Some(now);
            let condition = NodeCondition::PodsSkipped {
                pods,
                example: chain(example),
            };
            self.reporter.events.send_node(&condition);
        }
    }

    fn failed(&mut self, now: Instant, error: &kubelet::Error) {
        let kind = error.kind();
        let is_untrusted = error.certificate_fault() == Some(CertificateFault::Issuer);
        let error = chain(error);
        self.reporter.health.set_kubelet(Some(&error));
        self.report_failure(now, &error, is_untrusted);
        // Warns about the first failure of each kind in a row.
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

    fn report_failure(&mut self, now: Instant, error: &str, is_untrusted: bool) {
        let failing = self.failing_since.get_or_insert(FailingSince {
            start: now,
            reported: false,
        });
        // A certificate of another issuer is reported at once, because a restart of the kubelet does not explain it.
        if !failing.reported && (is_untrusted || now >= failing.start + RESTART) {
            failing.reported = true;
            let error = error.to_owned();
            let condition = if is_untrusted {
                NodeCondition::KubeletUntrusted(error)
            } else {
                NodeCondition::KubeletUnreachable(error)
            };
            self.reporter.events.send_node(&condition);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use usher_core::{kube_event::Reason, pod::list};

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
        kubelet.report_failure(now, "refused", false);
        kubelet.report_failure(now + RESTART / 2, "refused", false);
        assert_eq!(publisher.reasons(), []);
        kubelet.report_failure(now + RESTART, "refused", false);
        kubelet.report_failure(now + RESTART * 2, "refused", false);
        assert_eq!(publisher.reasons(), [Reason::KubeletUnreachable]);
    }

    #[test]
    fn skipped_pods_are_counted_always_and_reported_seldom() {
        let args = Args::parse_from(["usher-agent", "--node-name", "node-1"]);
        let metrics = Arc::new(Metrics::new());
        let (events, mut publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
        let reporter = Reporter::new(Arc::clone(&metrics), events);
        let mut kubelet = Kubelet::new(&args.node.kubelet, reporter).unwrap();
        let now = Instant::now();
        let list = |pods: usize| {
            let body = format!(r#"{{"items":[{}]}}"#, vec!["{}"; pods].join(","));
            list::parse(body.as_bytes(), Selection::default()).unwrap()
        };
        for pods in [0, 2, 3] {
            kubelet.report_skipped(now, &list(pods));
        }
        assert_eq!(publisher.reasons(), [Reason::PodsSkipped]);
        kubelet.report_skipped(now + SKIPPED_AGAIN, &list(3));
        assert_eq!(publisher.reasons(), []);
        kubelet.report_skipped(now + SKIPPED_AGAIN, &list(0));
        kubelet.report_skipped(now + SKIPPED_AGAIN, &list(1));
        assert_eq!(publisher.reasons(), [Reason::PodsSkipped]);
        let count = metrics.kubelet_skipped_pods.get(&PodSkipReason::Invalid);
        assert_eq!(count, 9);
    }
}
