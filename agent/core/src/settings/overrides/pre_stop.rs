//! How long the stop signals of a deleted pod's apps are held.

use std::time::Duration;

/// A delay of the stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreStop {
    For(Duration),
    /// Until clients have sent nothing for a while.
    Auto,
}

/// `false` is valid, and means no delay.
#[expect(clippy::option_option, reason = "an invalid value is the third case")]
pub(super) fn read(text: &str) -> Option<Option<PreStop>> {
    match text {
        "false" => Some(None),
        "auto" => Some(Some(PreStop::Auto)),
        text => super::deadline(text).map(|time| Some(PreStop::For(time))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let ten = PreStop::For(Duration::from_secs(10));
        for (text, expected) in [
            ("10s", Some(Some(ten))),
            ("auto", Some(Some(PreStop::Auto))),
            ("false", Some(None)),
            ("true", None),
            ("999ms", None),
            ("11m", None),
            ("Auto", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
