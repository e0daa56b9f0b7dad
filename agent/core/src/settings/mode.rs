//! Opt-in: what usher may do on this node.
//!
//! The Node's annotation overrides its label of the same key, the key of a capability overrides [`annotation::MODE`], and
//! the Node overrides the configuration.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Visitor},
};

use crate::settings::annotation;

/// By key.
type Values = BTreeMap<String, String>;

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Hash,
    Serialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(
    serialize_all = "lowercase",
    const_into_str,
    parse_err_ty = InvalidMode,
    parse_err_fn = InvalidMode::of
)]
pub enum Mode {
    Off,
    /// usher decides and records, but does not act.
    #[default]
    Observe,
    /// usher acts on its decisions.
    Enforce,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a mode (off, observe or enforce): {0:?}")]
pub struct InvalidMode(String);

impl InvalidMode {
    fn of(text: &str) -> Self {
        Self(text.chars().take(64).collect())
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AMode;
        impl Visitor<'_> for AMode {
            type Value = Mode;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("off, observe or enforce")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Mode, E> {
                text.parse().map_err(E::custom)
            }

            // YAML 1.1, which Helm and kubectl read, has `off` for false.
            fn visit_bool<E: Error>(self, is_on: bool) -> Result<Mode, E> {
                if is_on {
                    return Err(E::custom(InvalidMode(is_on.to_string())));
                }
                Ok(Mode::Off)
            }
        }
        deserializer.deserialize_any(AMode)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    pub quit: Mode,
    pub hold: Mode,
    /// Holding the stop signals of sidecars until the apps of a deleted pod have ended.
    pub linger: Mode,
}

/// The modes that the configuration sets, for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DefaultModes {
    /// The key `mode` of the file.
    #[serde(skip)]
    pub all: Option<Mode>,
    pub quit: Option<Mode>,
    pub hold: Option<Mode>,
    pub linger: Option<Mode>,
}

/// The values of usher's keys on a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeValues {
    pub annotations: Values,
    pub labels: Values,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// Neither the Node nor the configuration sets it.
    #[default]
    Default,
    Configuration(&'static str),
    Annotation(&'static str),
    Label(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::Configuration(key) => write!(out, "{key} in the configuration"),
            Self::Annotation(key) => write!(out, "annotation {key} of the Node"),
            Self::Label(key) => write!(out, "label {key} of the Node"),
        }
    }
}

/// Why the agent only observes although `enforce` is set.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(const_into_str)]
pub enum Limit {
    #[strum(serialize = "the configuration is invalid")]
    InvalidConfiguration,
    #[strum(serialize = "the host's network namespace is unknown")]
    UnknownHost,
    #[strum(serialize = "the Node has not been read")]
    UnknownNode,
}

/// The mode of a capability, and what sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setting {
    pub mode: Mode,
    pub source: Source,
    pub limit: Option<Limit>,
}

impl Setting {
    /// The source, for people.
    pub fn origin(&self) -> String {
        let source = self.source;
        match self.limit {
            None => source.to_string(),
            Some(limit) => format!("{source} sets enforce, but {}", limit.into_str()),
        }
    }
}

/// A value of the Node that is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {place} is invalid and is ignored")]
pub struct InvalidValue {
    pub place: Source,
    pub source: InvalidMode,
}

/// The mode of each capability, and what sets it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeModes {
    pub quit: Setting,
    pub hold: Setting,
    pub linger: Setting,
    pub invalid: Vec<InvalidValue>,
}

impl NodeModes {
    /// Resolves the modes. A value that is not a mode is reported and has no effect.
    pub fn resolve(defaults: DefaultModes, node: &NodeValues) -> Self {
        let mut invalid = Vec::new();
        let mut read = |key: &'static str| {
            let places = [
                (&node.annotations, Source::Annotation(key)),
                (&node.labels, Source::Label(key)),
            ];
            let mut modes = places.map(|(values, place)| {
                let mode = values.get(key)?.parse().map_err(|source| {
                    invalid.push(InvalidValue { place, source });
                });
                Some((mode.ok()?, place))
            });
            modes.iter_mut().find_map(Option::take)
        };
        let all = read(annotation::MODE);
        let mut setting = |key, configured: Option<Mode>, configured_key| {
            let configured = configured.map(|mode| (mode, Source::Configuration(configured_key)));
            let default = defaults
                .all
                .map(|mode| (mode, Source::Configuration("mode")));
            let (mode, source) = read(key)
                .or(all)
                .or(configured)
                .or(default)
                .unwrap_or_default();
            Setting {
                mode,
                source,
                limit: None,
            }
        };
        let quit = setting(annotation::QUIT, defaults.quit, "modes.quit");
        let hold = setting(annotation::HOLD, defaults.hold, "modes.hold");
        let linger = setting(annotation::LINGER, defaults.linger, "modes.linger");
        Self {
            quit,
            hold,
            linger,
            invalid,
        }
    }

    /// Replaces `enforce` by `observe`.
    pub fn limit(&mut self, limit: Limit) {
        for setting in [&mut self.quit, &mut self.hold, &mut self.linger] {
            if setting.mode == Mode::Enforce {
                setting.mode = Mode::Observe;
                setting.limit = Some(limit);
            }
        }
    }

    pub const fn modes(&self) -> Modes {
        Modes {
            quit: self.quit.mode,
            hold: self.hold.mode,
            linger: self.linger.mode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// `quit`, `hold` and `linger` with their sources, and the number of invalid values.
    fn resolve(
        defaults: DefaultModes,
        annotations: &[(&str, &str)],
        labels: &[(&str, &str)],
    ) -> ([String; 3], usize) {
        let node = NodeValues {
            annotations: values(annotations),
            labels: values(labels),
        };
        let found = NodeModes::resolve(defaults, &node);
        let text = |setting: Setting| format!("{}: {}", setting.mode, setting.origin());
        (
            [found.quit, found.hold, found.linger].map(text),
            found.invalid.len(),
        )
    }

    #[test]
    fn precedence_of_places() {
        let unset = DefaultModes::default();
        let enforced = DefaultModes {
            all: Some(Mode::Enforce),
            ..unset
        };
        let by_capability = DefaultModes {
            hold: Some(Mode::Off),
            ..enforced
        };
        let lingering = DefaultModes {
            linger: Some(Mode::Off),
            ..enforced
        };
        let mode = |value| ("usher.dev/mode", value);
        let quit = |value| ("usher.dev/quit", value);
        let hold = |value| ("usher.dev/hold", value);
        let linger = |value| ("usher.dev/linger", value);
        let default = "observe: default";
        let config = "enforce: mode in the configuration";
        let annotated =
            |mode: &str, key: &str| format!("{mode}: annotation usher.dev/{key} of the Node");
        let labelled = |mode: &str, key: &str| format!("{mode}: label usher.dev/{key} of the Node");
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let table: &[(DefaultModes, Pairs<'_>, Pairs<'_>, [&str; 3], usize)] = &[
            (unset, &[], &[], [default, default, default], 0),
            (enforced, &[], &[], [config, config, config], 0),
            (
                by_capability,
                &[],
                &[],
                [config, "off: modes.hold in the configuration", config],
                0,
            ),
            (
                lingering,
                &[],
                &[],
                [config, config, "off: modes.linger in the configuration"],
                0,
            ),
            (
                unset,
                &[mode("enforce")],
                &[],
                [
                    &annotated("enforce", "mode"),
                    &annotated("enforce", "mode"),
                    &annotated("enforce", "mode"),
                ],
                0,
            ),
            (
                unset,
                &[],
                &[mode("enforce")],
                [
                    &labelled("enforce", "mode"),
                    &labelled("enforce", "mode"),
                    &labelled("enforce", "mode"),
                ],
                0,
            ),
            (
                by_capability,
                &[mode("observe")],
                &[],
                [
                    &annotated("observe", "mode"),
                    &annotated("observe", "mode"),
                    &annotated("observe", "mode"),
                ],
                0,
            ),
            (
                enforced,
                &[mode("off")],
                &[mode("observe")],
                [
                    &annotated("off", "mode"),
                    &annotated("off", "mode"),
                    &annotated("off", "mode"),
                ],
                0,
            ),
            (
                enforced,
                &[mode("off")],
                &[quit("observe")],
                [
                    &labelled("observe", "quit"),
                    &annotated("off", "mode"),
                    &annotated("off", "mode"),
                ],
                0,
            ),
            (
                enforced,
                &[hold("observe")],
                &[hold("off")],
                [config, &annotated("observe", "hold"), config],
                0,
            ),
            (
                lingering,
                &[linger("observe")],
                &[linger("enforce")],
                [config, config, &annotated("observe", "linger")],
                0,
            ),
            (
                lingering,
                &[],
                &[linger("enforce")],
                [config, config, &labelled("enforce", "linger")],
                0,
            ),
            (
                enforced,
                &[mode("Enforce")],
                &[],
                [config, config, config],
                1,
            ),
            (
                unset,
                &[mode("enforce"), quit("yes")],
                &[quit("off")],
                [
                    &labelled("off", "quit"),
                    &annotated("enforce", "mode"),
                    &annotated("enforce", "mode"),
                ],
                1,
            ),
            (
                unset,
                &[mode("enforce"), quit("yes")],
                &[quit("no")],
                [
                    &annotated("enforce", "mode"),
                    &annotated("enforce", "mode"),
                    &annotated("enforce", "mode"),
                ],
                2,
            ),
        ];
        for (defaults, annotations, labels, modes, invalid) in table {
            let expected = (modes.map(str::to_owned), *invalid);
            let found = resolve(*defaults, annotations, labels);
            assert_eq!(found, expected, "{defaults:?} {annotations:?} {labels:?}");
        }
    }

    #[test]
    fn limited_modes_have_a_reason() {
        let defaults = DefaultModes {
            all: Some(Mode::Enforce),
            hold: Some(Mode::Off),
            ..DefaultModes::default()
        };
        let mut modes = NodeModes::resolve(defaults, &NodeValues::default());
        modes.limit(Limit::UnknownNode);
        let expected = Modes {
            quit: Mode::Observe,
            hold: Mode::Off,
            linger: Mode::Observe,
        };
        assert_eq!(modes.modes(), expected);
        assert_eq!(
            modes.quit.origin(),
            "mode in the configuration sets enforce, but the Node has not been read"
        );
        assert_eq!(modes.hold.origin(), "modes.hold in the configuration");
    }
}
