//! Quantities of Kubernetes, such as `100m` and `1.5Gi`
//! ([format](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/)).

/// A quantity in thousandths, rounded up; None for an invalid or a negative one.
pub fn thousandths(text: &str) -> Option<u64> {
    scaled(text, 1000.0)
}

/// A quantity in whole units, rounded up; None for an invalid or a negative one.
pub fn units(text: &str) -> Option<u64> {
    scaled(text, 1.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is not negative, and a conversion saturates"
)]
fn scaled(text: &str, scale: f64) -> Option<u64> {
    let is_number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.');
    let end = text.bytes().position(|byte| !is_number(byte));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let value = number.parse::<f64>().ok()? * factor(suffix)? * scale;
    // Binary fractions are inexact: 0.1 is slightly more than a tenth.
    let rounded = value.round();
    let whole = if (value - rounded).abs() < 1e-6 {
        rounded
    } else {
        value.ceil()
    };
    (whole >= 0.0 && whole.is_finite()).then_some(whole as u64)
}

fn factor(suffix: &str) -> Option<f64> {
    let binary = |power: i32| Some(1024_f64.powi(power));
    let decimal = |power: i32| Some(10_f64.powi(power));
    match suffix {
        "" => Some(1.0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            decimal(exponent)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_as_kubernetes_writes_them() {
        for (text, in_thousandths, in_units) in [
            ("0", Some(0), Some(0)),
            ("100m", Some(100), Some(1)),
            ("1", Some(1000), Some(1)),
            ("0.1", Some(100), Some(1)),
            ("1.5", Some(1500), Some(2)),
            ("+2", Some(2000), Some(2)),
            ("1u", Some(1), Some(1)),
            ("128Mi", Some(134_217_728_000), Some(134_217_728)),
            ("1.5Gi", Some(1_610_612_736_000), Some(1_610_612_736)),
            ("64M", Some(64_000_000_000), Some(64_000_000)),
            ("1e3", Some(1_000_000), Some(1000)),
            ("12E2", Some(1_200_000), Some(1200)),
            ("1e-3", Some(1), Some(1)),
            ("-1", None, None),
            ("", None, None),
            ("Gi", None, None),
            ("1 Gi", None, None),
            ("1gi", None, None),
            ("1e", None, None),
            ("1e999", None, None),
            ("99999E", Some(u64::MAX), Some(u64::MAX)),
        ] {
            assert_eq!(thousandths(text), in_thousandths, "{text}");
            assert_eq!(units(text), in_units, "{text}");
        }
    }
}
