//! Registers the metrics that [`usher_core::metric`] describes.

use prometheus_client::{
    metrics::{
        counter::Counter,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric as Served, Registry},
};
use usher_core::metric::{BUCKETS, Metric, SHORTEST, Value, node, value::Version};

use super::{
    family::{Counts, Gauges, States, key, unit},
    process::Own,
};

#[derive(Debug, Default)]
pub(super) struct Registration(Registry);

impl Registration {
    pub(super) fn counter(&mut self, metric: &Metric) -> Counter {
        self.served(metric, Counter::default())
    }

    pub(super) fn gauge(&mut self, metric: &Metric) -> Gauge {
        self.served(metric, Gauge::default())
    }

    pub(super) fn histogram(&mut self, metric: &Metric) -> Histogram {
        let buckets = exponential_buckets(SHORTEST, 2.0, BUCKETS);
        self.served(metric, Histogram::new(buckets))
    }

    pub(super) fn counts<V: Value>(&mut self, metric: &Metric) -> Counts<V> {
        let counts = Counts::new(metric);
        self.served(metric, counts.family.clone());
        counts
    }

    pub(super) fn states<T: Value, V: Value>(&mut self, metric: &Metric) -> States<T, V> {
        let states = States::new(metric);
        self.served(metric, states.family.clone());
        states
    }

    /// Adds a gauge that is always 1, with the version as a label.
    pub(super) fn build_info(&mut self) {
        let family = Gauges::default();
        let key = key(&node::BUILD_INFO, 0);
        family.get_or_create(&[(key, Version.name())]).set(1);
        self.served(&node::BUILD_INFO, family);
    }

    /// Adds the metrics of the process.
    pub(super) fn finish(mut self) -> Registry {
        self.0.register_collector(Box::new(Own));
        self.0
    }

    fn served<N: Served + Clone>(&mut self, metric: &Metric, number: N) -> N {
        let (name, help, served) = (metric.stem(), metric.meaning, number.clone());
        match unit(metric) {
            None => self.0.register(name, help, served),
            Some(unit) => self.0.register_with_unit(name, help, unit, served),
        }
        number
    }
}
