//! The effective values of the configuration, each with its source: the file and its line, or the default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_saphyr::{Location, Spanned};

use super::{Config, Defaults, Ladder};
use crate::settings::mode::NodeModes;

/// A value that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// What it is called: the key of the file, a flag, or an annotation.
    pub key: String,
    pub value: String,
    /// Where it comes from: `default`, `flag`, `variable NAME`, `FILE:LINE`, `annotation KEY` and the like.
    pub source: String,
}

impl Setting {
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            source: source.into(),
        }
    }
}

const DEFAULT: &str = "default";

/// The values of a configuration that was read from this text. `file` is the file's name, for people.
pub fn settings(config: &Config, file: &str, text: &str) -> Vec<Setting> {
    let lines = Lines::of(text);
    let source = |section: &str, key: &str| match lines.of_key(section, key) {
        Some(at) => format!("{file}:{}", at.line()),
        None => DEFAULT.to_owned(),
    };
    let Defaults {
        quit,
        quit_delay,
        drain,
        allow_pod_failure,
        hold,
        hold_deadline,
        on_deadline,
        hold_again,
    } = config.defaults;
    let time = |time| humantime::format_duration(time).to_string();
    let defaults = [
        ("quit", quit.to_string()),
        ("quitDelay", time(quit_delay)),
        ("drain", time(drain)),
        ("allowPodFailure", allow_pod_failure.to_string()),
        ("hold", hold.to_string()),
        ("holdDeadline", time(hold_deadline)),
        ("onDeadline", on_deadline.into_str().to_owned()),
        ("holdAgain", hold_again.to_string()),
    ];
    let Ladder {
        attempt,
        settle,
        settle_signal,
        listen,
        kill,
    } = config.ladder;
    let ladder = [
        ("attempt", time(attempt)),
        ("settle", time(settle)),
        ("settleSignal", time(settle_signal)),
        ("listen", time(listen)),
        ("kill", kill.to_string()),
    ];
    let excluded: Vec<&str> = config
        .excluded_namespaces
        .iter()
        .map(String::as_str)
        .collect();
    let mut settings = vec![Setting::new(
        "excludedNamespaces",
        format!("[{}]", excluded.join(", ")),
        source("excludedNamespaces", ""),
    )];
    for (section, values) in [("defaults", &defaults[..]), ("ladder", &ladder[..])] {
        settings.extend(values.iter().map(|(key, value)| {
            Setting::new(format!("{section}.{key}"), value, source(section, key))
        }));
    }
    settings.extend(config.recipes.iter().enumerate().map(|(at, recipe)| {
        let source = match lines.of_recipe(at) {
            Some(at) => format!("{file}:{}", at.line()),
            None => "built-in".to_owned(),
        };
        Setting::new(
            format!("recipes.{}", recipe.name),
            recipe.stage.into_str(),
            source,
        )
    }));
    settings
}

/// The mode of each capability, and what sets it.
pub fn modes(modes: &NodeModes) -> Vec<Setting> {
    [
        ("mode.quit", modes.quit),
        ("mode.hold", modes.hold),
        ("mode.linger", modes.linger),
    ]
    .map(|(key, setting)| Setting::new(key, setting.mode.into_str(), setting.origin()))
    .into()
}

type Any = Spanned<IgnoredAny>;

/// The positions of the values in a text.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Lines {
    /// In the order of the file.
    recipes: Vec<Any>,
    excluded_namespaces: Option<Any>,
    defaults: BTreeMap<String, Any>,
    ladder: BTreeMap<String, Any>,
}

impl Lines {
    /// An invalid text has no positions; the parser of the configuration reports the error.
    pub(super) fn of(text: &str) -> Self {
        serde_saphyr::from_str(text).unwrap_or_default()
    }

    /// The position of a key's value.
    pub(super) fn of_key(&self, section: &str, key: &str) -> Option<Location> {
        let value = match section {
            "excludedNamespaces" => self.excluded_namespaces.as_ref(),
            "defaults" => self.defaults.get(key),
            "ladder" => self.ladder.get(key),
            _ => None,
        };
        known(value.map(|value| &value.referenced))
    }

    pub(super) fn of_recipe(&self, at: usize) -> Option<Location> {
        known(self.recipes.get(at).map(|recipe| &recipe.referenced))
    }
}

/// The parser returns line 0 for an unknown position.
fn known(place: Option<&Location>) -> Option<Location> {
    place.copied().filter(|place| place.line() > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::{annotation, mode::NodeValues};

    const TEXT: &str = "# mine\nexcludedNamespaces: [b, a]\ndefaults:\n  hold: false\n\n  holdDeadline: 20s\n\
                        ladder: {kill: true}\nrecipes:\n  - name: one\n    recognize: [{name: [one]}]\n    quit: [{signal: SIGTERM, code: 143, takes: 1s}]\n";

    #[test]
    fn each_value_has_its_line() {
        let config = Config::parse("c.yaml", TEXT).unwrap();
        let settings = settings(&config, "c.yaml", TEXT);
        let of = |key: &str| {
            let found = settings.iter().find(|one| one.key == key).unwrap();
            (found.value.clone(), found.source.clone())
        };
        let pair = |value: &str, source: &str| (value.to_owned(), source.to_owned());
        assert_eq!(of("excludedNamespaces"), pair("[a, b]", "c.yaml:2"));
        assert_eq!(of("defaults.hold"), pair("false", "c.yaml:4"));
        assert_eq!(of("defaults.holdDeadline"), pair("20s", "c.yaml:6"));
        assert_eq!(of("defaults.quit"), pair("true", "default"));
        assert_eq!(of("ladder.kill"), pair("true", "c.yaml:7"));
        assert_eq!(of("ladder.attempt"), pair("1s", "default"));
        assert_eq!(of("recipes.one"), pair("helper", "c.yaml:9"));
        assert_eq!(of("recipes.istio"), pair("mesh", "built-in"));
    }

    #[test]
    fn modes_have_their_source() {
        let config = Config::parse("c.yaml", "mode: enforce\nmodes: {hold: off}\n").unwrap();
        let node = NodeValues {
            annotations: [(annotation::QUIT.to_owned(), "observe".to_owned())].into(),
            ..NodeValues::default()
        };
        let text = |node: &NodeValues| -> Vec<String> {
            modes(&NodeModes::resolve(config.modes, node))
                .into_iter()
                .map(|one| format!("{}={} {}", one.key, one.value, one.source))
                .collect()
        };
        let hold = "mode.hold=off modes.hold in the configuration";
        let linger = "mode.linger=enforce mode in the configuration";
        let quit = "mode.quit=enforce mode in the configuration";
        assert_eq!(text(&NodeValues::default()), [quit, hold, linger]);
        let quit = "mode.quit=observe annotation usher.dev/quit of the Node";
        assert_eq!(text(&node), [quit, hold, linger]);
        let none = modes(&NodeModes::default());
        assert!(none.iter().all(|one| one.source == DEFAULT));
    }

    #[test]
    fn without_a_file_everything_is_a_default() {
        let all = settings(&Config::default(), "c.yaml", "");
        assert!(
            all.iter()
                .all(|one| ["default", "built-in"].contains(&one.source.as_str()))
        );
    }

    #[test]
    fn every_reported_line_exists() {
        assert_eq!(known(Some(&Location::UNKNOWN)), None);
        assert_eq!(known(None), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[a-z:{}\\[\\] \n&*!-]{0,120}") {
            settings(&Config::default(), "c.yaml", &text);
        }
    }
}
