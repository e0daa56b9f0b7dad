//! Metric names in expressions.

use std::collections::BTreeSet;

use usher_core::metric::{self, Kind};

/// The names in an expression that belong to our metrics, or to a recording rule.
pub(crate) fn names(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|letter: char| !is_of_name(letter));
    words
        .filter(|word| ours(word) || word.contains(':'))
        .collect()
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

fn ours(word: &str) -> bool {
    word.starts_with("usher_") || word.starts_with("process_")
}

/// Whether the reference has the metric of this sample name.
pub(crate) fn is_served(name: &str) -> bool {
    metric::all().any(|metric| match metric.kind {
        Kind::Counter | Kind::Gauge => metric.name == name,
        Kind::Histogram => ["_bucket", "_sum", "_count"]
            .iter()
            .any(|end| name.strip_suffix(end) == Some(metric.name)),
    })
}

#[test]
fn names_are_found() {
    let found = names(
        "node:usher_a:rate5m > 1 and on (node) rate(usher_hold_duration_seconds_bucket{b=\"c\"}[5m])",
    );
    let expected = ["node:usher_a:rate5m", "usher_hold_duration_seconds_bucket"];
    assert_eq!(found, expected.into());
    assert!(
        is_served("usher_hold_duration_seconds_bucket")
            && !is_served("usher_hold_duration_seconds")
    );
    assert!(is_served("usher_ready") && !is_served("usher_steady"));
}
