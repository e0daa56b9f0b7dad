//! The results that a test program prints.

/// The name of a test, and whether it passed. None for other lines and for ignored tests.
pub(super) fn parse(line: &str) -> Option<(&str, bool)> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // The colours of a terminal surround the word.
    match verdict {
        verdict if verdict.contains("FAILED") => Some((name, false)),
        verdict if verdict.contains("ok") => Some((name, true)),
        _ => None,
    }
}

/// The number of failed tests in the summary of a test program.
pub(super) fn failures(summary: &str) -> usize {
    let mut parts = summary.split(['.', ';']);
    let failed = parts.find_map(|part| part.trim().strip_suffix(" failed"));
    failed.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{failures, parse};

    #[test]
    fn summaries() {
        let line = |failed: usize| {
            format!(
                "test result: x. 10 passed; {failed} failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s"
            )
        };
        assert_eq!([failures(&line(0)), failures(&line(12))], [0, 12]);
    }

    #[test]
    fn lines() {
        for (line, expected) in [
            ("test a::b ... ok", Some(("a::b", true))),
            ("test a ... \u{1b}[31mFAILED\u{1b}[m", Some(("a", false))),
            ("test a ... ignored, it takes hours", None),
            ("test result: ok. 3 passed", None),
            ("running 3 tests", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
