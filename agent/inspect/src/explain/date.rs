//! Times as Kubernetes writes them ([RFC 3339](https://www.rfc-editor.org/rfc/rfc3339), in UTC) and as milliseconds since
//! 1970. The crates that do this go by `SystemTime`, which core does not have.

const DAY: u64 = 86_400;

/// Reads `2026-11-22T00:10:05Z`, with or without a fraction. None for what is no such time, an offset included: the API
/// writes none.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !in_range || !digits {
        return None;
    }
    let thousandths = fraction.bytes().chain([b'0'; 3]).take(3);
    let millis = thousandths.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Some(seconds * 1000 + millis)
}

/// Writes such a time, to the second.
pub fn write(at_ms: u64) -> String {
    let seconds = at_ms / 1000;
    let (year, month, day) = date(seconds / DAY);
    let rest = seconds % DAY;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The time of day of it, for texts that name several times of one day.
pub fn clock(at_ms: u64) -> String {
    let written = write(at_ms);
    written
        .split_once('T')
        .map_or(String::new(), |(_date, time)| {
            time.trim_end_matches('Z').to_owned()
        })
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let mut parts = text.split(between).map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    });
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// Days from 1970-01-01 in the Gregorian calendar. A year begins in March here, so that the leap day is its last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    // 1970-01-01 is day 719,468 of this count.
    (before + of_year).saturating_sub(719_468)
}

/// The other way round.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
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
    }

    /// Reading alone would not tell: it takes 29 February of any year for the day before 1 March.
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
        fn what_is_written_is_read(seconds in 0..200_000_000_000_u64) {
            prop_assert_eq!(parse(&write(seconds * 1000)), Some(seconds * 1000));
        }

        #[test]
        fn anything_is_read_without_harm(text in "\\PC{0,40}") {
            prop_assert!(parse(&text).is_none_or(|at| at < u64::MAX / 2));
        }
    }
}
