//! The text formats of metrics: OpenMetrics for clients that accept it, otherwise Prometheus' older format.
//!
//! They differ in the lines before the samples: OpenMetrics omits the suffix `_total` of counters there, adds units,
//! and marks the end ([the formats](https://prometheus.io/docs/instrumenting/exposition_formats/)).

use std::borrow::Cow;

use prometheus_client::{encoding::text::encode, registry::Registry};
use usher_core::metric::{self, Kind};

const OPEN_METRICS: &str = "application/openmetrics-text";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Text,
}

impl Format {
    /// The format for this `Accept` header.
    pub(crate) fn accepted(accept: &str) -> Self {
        if accept.contains(OPEN_METRICS) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub(super) fn write(self, registry: &Registry) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if encode(&mut text, registry).is_err() {
            text.clear();
        }
        match self {
            Self::OpenMetrics => text,
            Self::Text => text.lines().filter_map(older).fold(
                String::with_capacity(text.len()),
                |mut written, line| {
                    written.push_str(&line);
                    written.push('\n');
                    written
                },
            ),
        }
    }
}

/// Converts a line to the older format; None for lines that it lacks.
fn older(line: &str) -> Option<Cow<'_, str>> {
    let Some(comment) = line.strip_prefix("# ") else {
        return Some(line.into());
    };
    let (word, rest) = comment.split_once(' ')?;
    let (family, rest) = rest.split_once(' ')?;
    match word {
        "HELP" | "TYPE" => Some(format!("# {word} {} {rest}", name(family)).into()),
        _ => None,
    }
}

/// The name of a metric's samples.
fn name(family: &str) -> &str {
    let is_it = |counter: &&metric::Metric| {
        counter.kind == Kind::Counter && counter.name.strip_suffix("_total") == Some(family)
    };
    metric::all().find(is_it).map_or(family, |found| found.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::telemetry::metrics::Metrics;

    #[test]
    fn older_format_names_counters_as_their_samples() {
        let text = Metrics::new().text(Format::Text);
        for line in [
            "# TYPE usher_decisions_total counter",
            "usher_decisions_total{decision=\"gave-up\"} 0",
            "# TYPE process_cpu_seconds_total counter",
            "# TYPE usher_hold_duration_seconds histogram",
            "usher_mode{capability=\"quit\",mode=\"enforce\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    }

    #[test]
    fn open_metrics_for_clients_that_accept_it() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Text);
        let text = Metrics::new().text(Format::OpenMetrics);
        assert!(
            text.contains("\n# TYPE usher_decisions counter\n"),
            "{text}"
        );
        assert!(
            text.contains("\n# UNIT process_cpu_seconds seconds\n"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }

    /// The node tests check a running agent in the same way.
    #[test]
    fn every_described_metric_is_served() {
        let text = Metrics::new().text(Format::Text);
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let served: BTreeSet<&str> = types.collect();
        let described: BTreeSet<String> = metric::all()
            .map(|metric| format!("{} {}", metric.name, metric.kind.into_str()))
            .collect();
        assert_eq!(served, described.iter().map(String::as_str).collect());
    }
}
