//! Whether the sidecars of a deleted pod outlive its apps.

use std::time::Duration;

use crate::base::duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(1);

/// Whether the stop signals of a pod's sidecars wait until its apps have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LingerKind {
    /// Without a value: they do not wait.
    #[default]
    Unset,
    No,
    UntilAppsEnd,
    /// For at most this long.
    For(Duration),
}

/// Reads the value of an annotation or label.
pub(super) fn read(text: &str) -> Option<LingerKind> {
    match text {
        "true" => Some(LingerKind::UntilAppsEnd),
        "false" => Some(LingerKind::No),
        text => {
            let limit = duration::parse_up_to(text, LONGEST).ok()?;
            (limit >= SHORTEST).then_some(LingerKind::For(limit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (text, expected) in [
            ("true", Some(LingerKind::UntilAppsEnd)),
            ("false", Some(LingerKind::No)),
            ("20s", Some(LingerKind::For(Duration::from_secs(20)))),
            ("1h", Some(LingerKind::For(LONGEST))),
            ("61m", None),
            ("999ms", None),
            ("True", None),
            ("", None),
            ("enforce", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
