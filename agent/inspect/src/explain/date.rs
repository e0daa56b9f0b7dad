//! Times as the Kubernetes API writes them ([RFC 3339](https://www.rfc-editor.org/rfc/rfc3339), in UTC), in milliseconds
//! since 1970.

use std::time::{Duration, UNIX_EPOCH};

/// The last millisecond of the year 9999: humantime writes no later time.
const LATEST_MS: u64 = 253_402_300_799_999;

/// Reads `2026-11-22T00:10:05Z`. The API writes no other offset, so any other is None.
pub(super) fn parse(text: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339(text)
        .ok()?
        .duration_since(UNIX_EPOCH);
    since.ok()?.as_millis().try_into().ok()
}

/// Writes a time, to the second.
pub fn write(at_ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(at_ms.min(LATEST_MS));
    humantime::format_rfc3339_seconds(at).to_string()
}

/// Writes the time of day.
pub fn clock(at_ms: u64) -> String {
    write(at_ms).get(11..19).unwrap_or_default().to_owned()
}

/// A duration as display text: `340 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_of_the_api() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59Z", Some(951_868_799_000)),
            ("2026-11-22T00:10:05Z", Some(1_795_306_205_000)),
            ("2026-11-22T00:10:05.123456Z", Some(1_795_306_205_123)),
            ("2026-11-22T00:10:05.1Z", Some(1_795_306_205_100)),
            ("2026-11-22T00:10:05", None),
            ("2026-11-22T00:10:05+01:00", None),
            ("2026-13-22T00:10:05Z", None),
            ("2026-11-22T24:00:00Z", None),
            ("2026-11-22T00:60:00Z", None),
            ("2026-11-22T00:10Z", None),
            ("2026-11-22T00:10:+5Z", None),
            ("99999999999999999999-11-22T00:10:05Z", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(clock(1_795_306_205_123), "00:10:05");
        assert_eq!(write(u64::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let spans = [340, 12_400, 185_000, 7_800_000, 200_000_000].map(span);
        assert_eq!(spans, ["340 ms", "12 s", "3 min 5 s", "2 h 10 min", "2 d"]);
    }

    #[test]
    fn leap_days_are_written_where_there_are_any() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2000-03-01T00:00:00Z",
            "2024-02-29T00:00:00Z",
            "2100-02-28T23:59:59Z",
            "2100-03-01T00:00:00Z",
            "2400-02-29T12:00:00Z",
        ] {
            assert_eq!(write(parse(text).unwrap()), text);
        }
    }

    proptest! {
        #[test]
        fn written_time_is_parsed(seconds in 0..200_000_000_000_u64) {
            prop_assert_eq!(parse(&write(seconds * 1000)), Some(seconds * 1000));
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in "\\PC{0,40}") {
            prop_assert!(parse(&text).is_none_or(|at| at < u64::MAX / 2));
        }
    }
}
