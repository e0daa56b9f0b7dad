//! Metrics with labels: a counter or a gauge for each value of a type, and for no other value.

use std::{marker::PhantomData, sync::atomic::AtomicI64};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use usher_core::metric::{Metric, Unit, Value};

pub(super) type Pair = (&'static str, &'static str);
pub(super) type Counters = Family<[Pair; 1], Counter>;
pub(super) type Gauges<const LABELS: usize> = Family<[Pair; LABELS], Gauge<i64, AtomicI64>>;

/// The name of a metric's label. A missing one is "", which a test over all names rejects.
pub(super) fn key(metric: &Metric, number: usize) -> &'static str {
    metric.labels.get(number).map_or("", |label| label.key)
}

/// A counter for each value.
#[derive(Debug)]
pub(crate) struct Counts<V> {
    key: &'static str,
    pub(super) family: Counters,
    values: PhantomData<fn(&V)>,
}

impl<V: Value> Counts<V> {
    pub(super) fn new(metric: &Metric) -> Self {
        let key = key(metric, 0);
        let family = Counters::default();
        for name in V::NAMES {
            drop(family.get_or_create(&[(key, name)]));
        }
        Self {
            key,
            family,
            values: PhantomData,
        }
    }

    pub(crate) fn inc(&self, value: &V) {
        self.add(value, 1);
    }

    pub(crate) fn add(&self, value: &V, count: u64) {
        let pair = (self.key, value.name());
        self.family.get_or_create(&[pair]).inc_by(count);
    }

    #[cfg(test)]
    pub(crate) fn get(&self, value: &V) -> u64 {
        self.family.get_or_create(&[(self.key, value.name())]).get()
    }
}

/// For each value of `T`: 1 for one value of `V`, 0 for the others.
#[derive(Debug)]
pub(crate) struct States<T, V> {
    keys: [&'static str; 2],
    pub(super) family: Gauges<2>,
    values: PhantomData<fn(&T, &V)>,
}

impl<T: Value, V: Value> States<T, V> {
    pub(super) fn new(metric: &Metric) -> Self {
        let states = Self {
            keys: [key(metric, 0), key(metric, 1)],
            family: Gauges::default(),
            values: PhantomData,
        };
        for thing in T::NAMES {
            states.write(thing, "");
        }
        states
    }

    pub(crate) fn set(&self, thing: &T, state: &V) {
        self.write(thing.name(), state.name());
    }

    fn write(&self, thing: &'static str, now: &str) {
        let [of, is] = self.keys;
        for name in V::NAMES {
            let gauge = self.family.get_or_create(&[(of, thing), (is, name)]);
            gauge.set(i64::from(*name == now));
        }
    }
}

/// The unit as a type of `prometheus_client`.
pub(super) fn unit(metric: &Metric) -> Option<prometheus_client::registry::Unit> {
    metric.unit.map(|unit| match unit {
        Unit::Seconds => prometheus_client::registry::Unit::Seconds,
        Unit::Bytes => prometheus_client::registry::Unit::Bytes,
    })
}
