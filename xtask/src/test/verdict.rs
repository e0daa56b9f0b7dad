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

#[cfg(test)]
mod tests {
    use super::parse;

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
