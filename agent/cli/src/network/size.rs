//! Sizes such as `512`, `64KiB` and `10M`.

/// Reads a size in bytes; K, M and G are powers of 1,024, with or without `iB` behind them.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.len()
        - text
            .trim_start_matches(|byte: char| byte.is_ascii_digit())
            .len();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.strip_suffix("iB").unwrap_or(unit) {
        "" if !unit.is_empty() => 0,
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 0,
    };
    let size = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    size.filter(|size| *size > 0)
        .ok_or_else(|| "invalid size, use for example 512KiB, 64MiB or 1GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes() {
        for (text, size) in [
            ("512", 512),
            ("64KiB", 65536),
            ("10M", 10 << 20),
            ("1GiB", 1 << 30),
            ("2k", 2048),
        ] {
            assert_eq!(parse(text), Ok(size));
        }
        for text in [
            "",
            "0",
            "M",
            "1iB",
            "1T",
            "-1",
            "1.5M",
            "99999999999999999999",
            "18446744073709551615G",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
