//! Bundles the outputs of a component's reports: metrics, health, and Events of the cluster.

use std::sync::Arc;

use crate::{
    kubernetes::events::EventSender,
    telemetry::{health::Health, metrics::Metrics},
};

/// A handle of every component. All clones share the same outputs.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) events: EventSender,
}

impl Reporter {
    pub(crate) fn new(metrics: Arc<Metrics>, events: EventSender) -> Self {
        Self {
            metrics,
            health: Arc::default(),
            events,
        }
    }
}
