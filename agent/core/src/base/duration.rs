//! Durations as users write and read them.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de};

/// The longest duration: usher waits for nothing that long, so a longer value is a mistake.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotADuration {
    #[error("not a duration (like 500ms, 5s, 1m30s): {text:?}")]
    Form { text: String },
    #[error("{given} is longer than {longest}", given = humantime::format_duration(*.given),
            longest = humantime::format_duration(*.longest))]
    TooLong { given: Duration, longest: Duration },
}

/// Parses a duration of at most a day: `500ms`, `5s`, `1m30s`.
pub fn parse(text: &str) -> Result<Duration, NotADuration> {
    parse_up_to(text, LONGEST)
}

pub fn parse_up_to(text: &str, longest: Duration) -> Result<Duration, NotADuration> {
    let form = || NotADuration::Form {
        text: text.chars().take(64).collect(),
    };
    let given = match humantime::parse_duration(text.trim()) {
        Ok(given) => given,
        Err(_unreadable) => return Err(form()),
    };
    if given > longest {
        return Err(NotADuration::TooLong { given, longest });
    }
    Ok(given)
}

/// Parses a duration, or a plain number of seconds, which some flags of sidecars have.
pub(crate) fn parse_or_seconds(text: &str) -> Result<Duration, NotADuration> {
    match text.trim().parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_no_number) => parse(text),
    }
}

/// Formats a configured duration in the form that [`parse`] accepts: `30s`, `1m 30s`.
pub fn setting(duration: Duration) -> impl fmt::Display {
    humantime::format_duration(duration)
}

/// Formats a measured duration with three or four significant digits: `1.5 ms`, `812 ms`, `75.2 s`.
pub fn elapsed(duration: Duration) -> String {
    if duration < Duration::from_millis(10) {
        format!("{:.1} ms", duration.as_secs_f64() * 1e3)
    } else if duration < Duration::from_secs(10) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

/// For `deserialize_with`: a duration as the configuration and the recipes have it.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_within_their_limit() {
        for (text, ms) in [
            ("500ms", 500),
            ("5s", 5000),
            ("1m30s", 90_000),
            ("1m 30s", 90_000),
            ("0s", 0),
            ("24h", 24 * 60 * 60 * 1000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "soon", "-1s", "25h", "99999999999999999999s"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse_or_seconds("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_or_seconds("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(
            parse_up_to("11m", Duration::from_secs(600))
                .unwrap_err()
                .to_string(),
            "11m is longer than 10m"
        );
    }

    #[test]
    fn settings_are_formatted_as_they_are_written() {
        let text = |ms| setting(Duration::from_millis(ms)).to_string();
        assert_eq!([text(500), text(90_000)], ["500ms", "1m 30s"]);
    }

    #[test]
    fn measured_times_are_rounded() {
        for (micros, text) in [
            (0, "0.0 ms"),
            (1_480, "1.5 ms"),
            (9_900, "9.9 ms"),
            (10_000, "10 ms"),
            (812_900, "812 ms"),
            (9_999_999, "9999 ms"),
            (10_000_000, "10.0 s"),
            (75_250_000, "75.2 s"),
        ] {
            assert_eq!(elapsed(Duration::from_micros(micros)), text);
        }
    }
}
