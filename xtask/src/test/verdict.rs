//! What a test program says of each of its tests.

/// The name of a test, and whether it passed; None for any other line, and for what was left out.
pub(crate) fn of(line: &str) -> Option<(&str, bool)> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // A terminal's colours are around the word.
    match verdict {
        verdict if verdict.contains("FAILED") => Some((name, false)),
        verdict if verdict.contains("ok") => Some((name, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn lines() {
        for (line, told) in [
            ("test a::b ... ok", Some(("a::b", true))),
            ("test a ... \u{1b}[31mFAILED\u{1b}[m", Some(("a", false))),
            ("test a ... ignored, it takes hours", None),
            ("test result: ok. 3 passed", None),
            ("running 3 tests", None),
        ] {
            assert_eq!(of(line), told, "{line}");
        }
    }
}
