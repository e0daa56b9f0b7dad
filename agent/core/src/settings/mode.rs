//! Opt-in: what usher may do on this node, from the Node's annotations.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::settings::annotation;

/// How far a capability goes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Hash,
    strum::IntoStaticStr,
    strum::VariantNames,
    strum::VariantArray,
)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Mode {
    Off,
    /// Everything is decided and recorded, nothing is done.
    #[default]
    Observe,
    /// What is decided is done.
    Enforce,
}

impl Mode {
    /// The annotation's value for this mode.
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A value that is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a mode (off, observe or enforce): {0:?}")]
pub struct InvalidMode(String);

impl FromStr for Mode {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        <Self as strum::VariantArray>::VARIANTS
            .iter()
            .copied()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| InvalidMode(text.chars().take(64).collect()))
    }
}

/// The mode of each capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// Asking sidecars of finished pods to quit.
    pub quit: Mode,
    /// Having connections wait until a sidecar is ready.
    pub hold: Mode,
}

/// An annotation of the Node that could not be used, and what counts instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} of the Node ignored, {used} counts")]
pub struct InvalidAnnotation {
    pub key: &'static str,
    /// The mode that counts instead.
    pub used: Mode,
    /// What is wrong with it.
    pub source: InvalidMode,
}

impl Modes {
    /// Reads the Node's annotations. A value that is not a mode is reported
    /// and counts as if it were absent: [`Mode::Observe`], the mode that does
    /// nothing, or what [`annotation::MODE`] says.
    pub fn from_annotations(
        annotations: &BTreeMap<String, String>,
    ) -> (Self, Vec<InvalidAnnotation>) {
        let mut bad = Vec::new();
        let mut read = |key: &'static str, default: Mode| match annotations.get(key) {
            None => default,
            Some(text) => text.parse().unwrap_or_else(|source| {
                bad.push(InvalidAnnotation {
                    key,
                    used: default,
                    source,
                });
                default
            }),
        };
        let all = read(annotation::MODE, Mode::default());
        let quit = read(annotation::QUIT, all);
        let hold = read(annotation::HOLD, all);
        (Self { quit, hold }, bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> (Mode, usize) {
        let map = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let (modes, bad) = Modes::from_annotations(&map);
        (modes.quit, bad.len())
    }

    #[test]
    fn each_capability_has_its_own() {
        let map = [
            ("usher.dev/mode".to_owned(), "enforce".to_owned()),
            ("usher.dev/hold".to_owned(), "off".to_owned()),
        ];
        let (modes, bad) = Modes::from_annotations(&map.into());
        assert!(bad.is_empty());
        assert_eq!((modes.quit, modes.hold), (Mode::Enforce, Mode::Off));
    }

    #[test]
    fn table() {
        assert_eq!(read(&[]), (Mode::Observe, 0));
        assert_eq!(read(&[("usher.dev/mode", "enforce")]), (Mode::Enforce, 0));
        assert_eq!(read(&[("usher.dev/mode", "off")]), (Mode::Off, 0));
        let both = [("usher.dev/mode", "enforce"), ("usher.dev/quit", "observe")];
        assert_eq!(read(&both), (Mode::Observe, 0));
        assert_eq!(read(&[("usher.dev/mode", "Enforce")]), (Mode::Observe, 1));
        let bad = [("usher.dev/mode", "enforce"), ("usher.dev/quit", "yes")];
        assert_eq!(read(&bad), (Mode::Enforce, 1));
    }
}
