//! Durations as people write them: `500ms`, `5s`, `1m30s`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// Longer than anything that usher waits for; what is longer is a mistake.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotADuration {
    /// It cannot be read.
    #[error("not a duration (like 500ms, 5s, 1m30s): {text:?}")]
    Form {
        /// The text.
        text: String,
    },
    /// It is longer than `longest`.
    #[error("{given} is longer than {longest}", given = humantime::format_duration(*.given),
            longest = humantime::format_duration(*.longest))]
    TooLong {
        /// What was given.
        given: Duration,
        /// What is allowed.
        longest: Duration,
    },
}

/// Reads a duration of at most a day.
pub fn parse(text: &str) -> Result<Duration, NotADuration> {
    parse_up_to(text, LONGEST)
}

/// Reads a duration of at most `longest`.
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

/// Reads a duration, or a plain number of seconds as some flags have it.
pub(crate) fn parse_or_seconds(text: &str) -> Result<Duration, NotADuration> {
    match text.trim().parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_no_number) => parse(text),
    }
}

/// A duration in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written(pub(crate) Duration);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(Self).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
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
}
