//! Whether the sidecars of a deleted pod outlive its apps.

use std::time::Duration;

use crate::base::duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(1);

/// Whether the stop signals of a pod's sidecars are held until its apps have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LingerKind {
    /// Without a value they are not held.
    #[default]
    Unset,
    No,
    UntilAppsEnd,
    /// The longest hold.
    For(Duration),
}

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
