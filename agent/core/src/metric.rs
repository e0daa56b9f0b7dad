//! The agent's metrics as data: names, types, units, meanings, and labels with all their values.
//!
//! The agent registers its metrics from this module, and the reference in the documentation is generated from it, so
//! both always agree. All values of a label are known in advance ([`Value`]): no label contains the name of a pod, a
//! Namespace or a container, so a node has the same few hundred series regardless of its workload.

pub mod event;
pub mod hold;
pub mod linger;
pub mod node;
pub mod process;
pub mod quit;
pub mod sample;
pub mod start;
pub mod value;
pub mod worker;

pub use self::value::Value;

/// The upper limit of the first bucket of a histogram, in seconds; that of each further bucket is twice as high.
pub const SHORTEST: f64 = 0.000_25;
/// The number of buckets of a histogram, besides the one for longer times: up to 65.5 s.
pub const BUCKETS: u16 = 19;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name in queries. A histogram adds `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    pub kind: Kind,
    /// The unit; None for a number of things.
    pub unit: Option<Unit>,
    pub labels: &'static [Label],
    /// The description, in one sentence without a full stop.
    pub meaning: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Kind {
    /// It only grows, and begins at 0 when the agent starts.
    Counter,
    Gauge,
    /// A distribution of durations.
    Histogram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Unit {
    Seconds,
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    pub key: &'static str,
    /// All its values. Each has a series from the start, so that the first event is visible as a step from 0.
    pub values: &'static [&'static str],
}

impl Label {
    pub const fn of<V: Value>(key: &'static str) -> Self {
        Self {
            key,
            values: V::NAMES,
        }
    }
}

impl Metric {
    /// The name without the suffixes of its type and unit.
    pub fn stem(&self) -> &'static str {
        let name = self.name;
        let name = match self.kind {
            Kind::Counter => name.strip_suffix("_total").unwrap_or(name),
            Kind::Gauge | Kind::Histogram => name,
        };
        let unit = self.unit.map_or("", <&str>::from);
        let stem = name.strip_suffix(unit).unwrap_or(name);
        stem.strip_suffix('_').unwrap_or(stem)
    }

    const fn counter(name: &'static str, labels: &'static [Label], meaning: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Counter,
            unit: None,
            labels,
            meaning,
        }
    }

    const fn gauge(name: &'static str, labels: &'static [Label], meaning: &'static str) -> Self {
        Self {
            kind: Kind::Gauge,
            ..Self::counter(name, labels, meaning)
        }
    }

    const fn time(name: &'static str, meaning: &'static str) -> Self {
        Self {
            kind: Kind::Histogram,
            unit: Some(Unit::Seconds),
            ..Self::counter(name, &[], meaning)
        }
    }
}

/// All metrics, in the order of the reference.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let rooms = [
        quit::ALL,
        hold::ALL,
        start::ALL,
        linger::ALL,
        worker::ALL,
        event::ALL,
        node::ALL,
        process::ALL,
    ];
    rooms.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn metric_names_contain_type_and_unit() {
        let mut seen = BTreeSet::new();
        for metric in all() {
            let Metric {
                name,
                kind,
                unit,
                labels,
                meaning,
            } = metric;
            assert!(seen.insert(name), "{name} is there twice");
            let ours = name.starts_with("usher_") || name.starts_with("process_");
            assert!(ours, "{name}");
            let end = unit.map_or(String::new(), |unit| format!("_{}", unit.into_str()));
            let total = if *kind == Kind::Counter { "_total" } else { "" };
            assert_eq!(format!("{}{end}{total}", metric.stem()), **name);
            assert!(!meaning.is_empty() && !meaning.ends_with('.'), "{name}");
            let stem = name.strip_suffix("_total").unwrap_or(name);
            let mut units = [Unit::Seconds, Unit::Bytes].into_iter();
            let named = units.find(|unit| stem.ends_with(unit.into_str()));
            assert_eq!(*unit, named, "{name}");
            // A process says what it is, and no distribution.
            let is_histogram = name.starts_with("usher_") && named == Some(Unit::Seconds);
            assert_eq!(*kind == Kind::Histogram, is_histogram, "{name}");
            for label in *labels {
                let values: BTreeSet<_> = label.values.iter().collect();
                assert!(!values.is_empty(), "{name}{{{}}}", label.key);
                assert_eq!(values.len(), label.values.len(), "{name}{{{}}}", label.key);
            }
        }
        assert!(seen.contains(&"usher_decisions_total"));
    }

    #[test]
    fn words_for_types_and_units() {
        let kinds = [Kind::Counter, Kind::Gauge, Kind::Histogram];
        assert_eq!(kinds.map(<&str>::from), ["counter", "gauge", "histogram"]);
        let units = [Unit::Seconds, Unit::Bytes];
        assert_eq!(units.map(<&str>::from), ["seconds", "bytes"]);
    }

    #[test]
    fn a_node_has_few_series() {
        let of_one = |metric: &Metric| {
            let combinations: usize = metric.labels.iter().map(|one| one.values.len()).product();
            match metric.kind {
                Kind::Histogram => combinations * (usize::from(BUCKETS) + 3),
                Kind::Counter | Kind::Gauge => combinations,
            }
        };
        let series: usize = all().map(of_one).sum();
        assert!(series <= 320, "{series}");
    }
}
