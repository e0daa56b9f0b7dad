//! Lists the kubelet's pods for the engine, and reports when that fails.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use usher_client::{
    error_chain::chain,
    kubelet::{self, BadSetting},
    node_args::KubeletArgs,
};
use usher_core::{
    kube_event::NodeCondition,
    metric::value::{Listed, Value},
    pod::list::PodList,
    recipe::Reads,
};

use crate::{kubernetes::events::Teller, telemetry::metrics::Metrics};

/// A kubelet that is away for longer is worth an Event.
const RESTART: Duration = Duration::from_secs(60);

/// The kubelet of this node.
#[derive(Debug)]
pub(crate) struct Kubelet {
    client: kubelet::Kubelet,
    metrics: Arc<Metrics>,
    teller: Teller,
    /// What went wrong with the last request.
    failing: Option<&'static str>,
    /// Since when something has, and whether that was told.
    failing_since: Option<(Instant, bool)>,
}

impl Kubelet {
    pub(crate) fn new(
        args: &KubeletArgs,
        metrics: Arc<Metrics>,
        teller: Teller,
    ) -> Result<Self, BadSetting> {
        Ok(Self {
            client: kubelet::Kubelet::new(args)?,
            metrics,
            teller,
            failing: None,
            failing_since: None,
        })
    }

    /// Asks for the pods, and keeps what `reads` names of them. What goes wrong is logged and counted here.
    pub(crate) async fn pods(&mut self, reads: &Reads) -> Option<PodList> {
        let begin = Instant::now();
        let answer = self.client.pods(reads).await;
        let took = begin.elapsed();
        self.metrics.kubelet_request.observe(took.as_secs_f64());
        match answer {
            Ok(list) => {
                self.failing_since = None;
                self.metrics.vitals.listed(None);
                self.metrics.kubelet_requests.inc(&Listed::Ok);
                for bad in &list.bad {
                    self.metrics.kubelet_bad_pods.inc();
                    tracing::warn!(error = %chain(bad), "left a pod of the kubelet's list out");
                }
                let pods = list.pods.len();
                match self.failing.take() {
                    Some(kind) => tracing::info!(pods, kind, "listed the kubelet's pods again"),
                    None => tracing::debug!(pods, ?took, "listed the kubelet's pods"),
                }
                Some(list)
            }
            Err(error) => {
                let kind = error.kind();
                self.metrics.kubelet_requests.inc(&kind);
                let kind = kind.name();
                let text = chain(&error);
                self.metrics.vitals.listed(Some(&text));
                self.tell(begin, &text);
                // Said once, and again when something else is wrong.
                if self.failing.replace(kind) == Some(kind) {
                    tracing::debug!(
                        error = text,
                        kind,
                        "still could not list the kubelet's pods"
                    );
                } else {
                    tracing::warn!(
                        error = text,
                        kind,
                        "could not list the kubelet's pods; trying again, and going on with what is known"
                    );
                }
                None
            }
        }
    }

    fn tell(&mut self, now: Instant, error: &str) {
        let (since, told) = self.failing_since.get_or_insert((now, false));
        if !*told && now >= *since + RESTART {
            *told = true;
            let condition = NodeCondition::KubeletUnreachable(error.to_owned());
            self.teller.node(&condition);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use usher_core::kube_event::Reason;

    use super::*;
    use crate::{args::Args, kubernetes::events::Events};

    #[test]
    fn one_that_stays_away_is_told_once() {
        let args = Args::parse_from(["usher-agent", "--node-name", "node-1"]);
        let args = args.node.kubelet;
        let metrics = Arc::new(Metrics::new());
        let (teller, mut events) = Events::new("node-1", Arc::clone(&metrics));
        let mut kubelet = Kubelet::new(&args, metrics, teller).unwrap();
        let now = Instant::now();
        kubelet.tell(now, "refused");
        kubelet.tell(now + RESTART / 2, "refused");
        assert_eq!(events.reasons(), []);
        kubelet.tell(now + RESTART, "refused");
        kubelet.tell(now + RESTART * 2, "refused");
        assert_eq!(events.reasons(), [Reason::KubeletUnreachable]);
    }
}
