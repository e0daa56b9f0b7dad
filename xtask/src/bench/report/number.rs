//! Numbers with units.

use usher_tests::record::Limit;

/// A number with three significant digits, without trailing zeros.
pub(super) fn short(value: f64) -> String {
    if !value.is_finite() {
        return "not measured".to_owned();
    }
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match digits {
        0 => text,
        _ => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

pub(super) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "" => short(value),
        _ if !value.is_finite() => short(value),
        _ => format!("{} {unit}", short(value)),
    }
}

pub(super) fn limit(limit: Limit, unit: &str) -> String {
    match limit {
        Limit::AtMost(most) => format!("≤ {}", with_unit(most, unit)),
        Limit::Below(bound) => format!("< {}", with_unit(bound, unit)),
        Limit::Between(least, most) => format!("{} to {}", short(least), with_unit(most, unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (0.2504, "0.25"),
            (1.005, "1"),
            (12.34, "12.3"),
            (1200.4, "1200"),
            (100.0, "100"),
            (f64::NAN, "not measured"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(limit(Limit::Between(0.95, 1.05), ""), "0.95 to 1.05");
    }
}
