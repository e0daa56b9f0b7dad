//! Sizes and times on the command line, and in the output of a sysdump.

use std::time::UNIX_EPOCH;

use crate::explain::write_time;

/// Units of sizes, the longer ones first.
const UNITS: [(&str, u64); 11] = [
    ("KiB", 1 << 10),
    ("kiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid size {text:?}, use for example 64MiB, 500kB or 1048576")]
pub struct NotASize {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotASizeAboveZero {
    #[error(transparent)]
    Invalid(#[from] NotASize),
    #[error("a size above 0 is required")]
    Zero,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid time {text:?}, use for example 2026-11-22T01:20:00Z, or seconds since 1970")]
pub struct NotATime {
    text: String,
}

impl NotASize {
    fn new(text: &str) -> Self {
        let text = text.chars().take(64).collect();
        Self { text }
    }
}

/// Parses a size in bytes. K, M and G are powers of 1,024, as KiB, MiB and GiB are.
pub fn size(text: &str) -> Result<u64, NotASize> {
    let trimmed = text.trim();
    let mut units = UNITS.iter();
    let with_unit = units.find_map(|(unit, factor)| Some((trimmed.strip_suffix(unit)?, *factor)));
    let (number, factor) = with_unit.unwrap_or((trimmed, 1));
    number
        .trim_end()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| NotASize::new(text))
}

pub fn size_above_zero(text: &str) -> Result<u64, NotASizeAboveZero> {
    match size(text)? {
        0 => Err(NotASizeAboveZero::Zero),
        bytes => Ok(bytes),
    }
}

pub fn size_text(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} bytes"),
        1024..=1_048_575 => format!("{} KiB", bytes / 1024),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// Parses a time, as milliseconds since 1970-01-01T00:00:00Z.
pub fn time(text: &str) -> Result<u64, NotATime> {
    let not_one = || NotATime {
        text: text.chars().take(64).collect(),
    };
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000).ok_or_else(not_one);
    }
    let time = humantime::parse_rfc3339_weak(text).ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let millis = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    millis.ok_or_else(not_one)
}

/// The name of a sysdump's file, such as `usher-sysdump-NODE-20261122T012000Z.tar.gz`.
pub fn file_name(node: Option<&str>, at_ms: u64) -> String {
    let node = node.map(|node| format!("{node}-")).unwrap_or_default();
    let time = write_time(at_ms).replace(['-', ':'], "");
    format!("usher-sysdump-{node}{time}.tar.gz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("64MiB", Some(64 << 20)),
            ("500kB", Some(500_000)),
            ("7", Some(7)),
            ("2 G", Some(2 << 30)),
            ("2k", Some(2048)),
            ("0", Some(0)),
            ("", None),
            ("MiB", None),
            ("-1", None),
            ("1iB", None),
            ("1T", None),
            ("1.5M", None),
            ("1MM", None),
            ("5KiBKiB", None),
            ("99999999999999999999", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
        assert!(size_above_zero("0").is_err());
        assert_eq!(size_above_zero("10M"), Ok(10 << 20));
        assert_eq!(size_text(1023), "1023 bytes");
        assert_eq!(size_text(2048), "2 KiB");
        assert_eq!(size_text(3 << 19), "1.5 MiB");
    }

    #[test]
    fn times() {
        assert_eq!(time("2026-11-22T01:20:00Z"), Ok(1_795_310_400_000));
        assert_eq!(time("1795310400"), Ok(1_795_310_400_000));
        assert!(time("yesterday").is_err() && time("1969-01-01T00:00:00Z").is_err());
        assert_eq!(
            file_name(Some("one"), 1_795_310_400_000),
            "usher-sysdump-one-20261122T012000Z.tar.gz"
        );
        assert!(file_name(None, u64::MAX).starts_with("usher-sysdump-9999"));
    }
}
