//! What is held until a pod's sidecars are ready: `connect`, `start`, or nothing.

/// What is held until a pod's sidecars are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldKind {
    No,
    Connect,
    /// The first instruction of its apps, and their connections.
    Start,
}

impl From<bool> for HoldKind {
    /// What the configuration's `defaults.hold` means. No start is held by default.
    fn from(hold: bool) -> Self {
        if hold { Self::Connect } else { Self::No }
    }
}

pub(super) fn read(text: &str) -> Option<HoldKind> {
    match text {
        "connect" | "true" => Some(HoldKind::Connect),
        "start" => Some(HoldKind::Start),
        "false" => Some(HoldKind::No),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (text, expected) in [
            ("connect", Some(HoldKind::Connect)),
            ("true", Some(HoldKind::Connect)),
            ("start", Some(HoldKind::Start)),
            ("false", Some(HoldKind::No)),
            ("", None),
            ("Start", None),
            ("start ", None),
            ("no", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(HoldKind::from(true), HoldKind::Connect);
        assert_eq!(HoldKind::from(false), HoldKind::No);
    }
}
