//! Sizes and times on the command line of a sysdump, and in its output.

use std::time::{Duration, UNIX_EPOCH};

/// Units of sizes, the longer ones first.
const UNITS: [(&str, u64); 8] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid size {text:?}, use for example 64MiB, 500kB or 1048576")]
pub struct NotASize {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid time {text:?}, use for example 2026-11-22T01:20:00Z, or seconds since 1970")]
pub struct NotATime {
    text: String,
}

/// Parses a size in bytes.
pub fn size(text: &str) -> Result<u64, NotASize> {
    let trimmed = text.trim();
    let unit = UNITS.iter().find(|(unit, _)| trimmed.ends_with(unit));
    let (number, factor) = match unit {
        Some((unit, factor)) => (trimmed.trim_end_matches(unit).trim_end(), *factor),
        None => (trimmed, 1),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| NotASize {
            text: text.chars().take(64).collect(),
        })
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

/// A time as text: `2026-11-22T01:20:00Z`.
pub fn time_text(at_ms: u64) -> String {
    // humantime cannot format years beyond 9999.
    let at = Duration::from_millis(at_ms.min(253_402_300_799_000));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + at).to_string()
}

/// A time for a file name: `20261122T012000Z`.
pub fn file_name_time(at_ms: u64) -> String {
    time_text(at_ms).replace(['-', ':'], "")
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
            ("", None),
            ("MiB", None),
            ("-1", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
        assert_eq!(size_text(1023), "1023 bytes");
        assert_eq!(size_text(2048), "2 KiB");
        assert_eq!(size_text(3 << 19), "1.5 MiB");
    }

    #[test]
    fn times() {
        assert_eq!(time("2026-11-22T01:20:00Z"), Ok(1_795_310_400_000));
        assert_eq!(time("1795310400"), Ok(1_795_310_400_000));
        assert!(time("yesterday").is_err() && time("1969-01-01T00:00:00Z").is_err());
        assert_eq!(file_name_time(1_795_310_400_000), "20261122T012000Z");
        assert!(file_name_time(u64::MAX).starts_with("9999"));
    }
}
