//! Annotations, and the keys of the configuration file.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use usher_core::settings::{
    annotation::{self, Known},
    config::{Config, origin},
};

use super::markdown::{code, codes, listed, table};
use crate::list::List;

static KEYS: List = List(include_str!("configuration.list"));
/// Keys that have the value of `mode` by default.
const INHERITED: [&str; 3] = ["modes.quit", "modes.hold", "modes.linger"];

struct Key {
    key: &'static str,
    values: &'static str,
    default: String,
    meaning: &'static str,
}

pub(super) fn annotations() -> Result<String> {
    let rows: Vec<_> = annotation::KNOWN.iter().map(row).collect();
    let head = ["annotation", "on", "values", "default", "meaning"];
    Ok(table(head, &rows))
}

fn row(known: &Known) -> [String; 5] {
    let on = known.on.iter().map(|holder| holder.into_str().to_owned());
    [
        code(known.key),
        listed(on, "or"),
        codes(known.values.iter().copied(), "or"),
        known.default.map_or_else(String::new, code),
        known.meaning.to_owned(),
    ]
}

pub(super) fn keys() -> Result<String> {
    let row = |key: Key| {
        let default = match INHERITED.contains(&key.key) {
            true => "that of `mode`".to_owned(),
            false => code(&key.default),
        };
        let (values, meaning) = (key.values.to_owned(), key.meaning.to_owned());
        [code(key.key), values, default, meaning]
    };
    let rows: Vec<_> = all(&Config::default())?.into_iter().map(row).collect();
    Ok(table(["key", "takes", "default", "meaning"], &rows))
}

/// Every key, as a path.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let keys = all(&Config::default()).unwrap();
    keys.into_iter().map(|key| key.key)
}

fn all(config: &Config) -> Result<Vec<Key>> {
    let mut defaults = defaults(config);
    let keys = KEYS
        .rows("key")
        .map(|[key, values, meaning]| {
            let default = defaults
                .remove(key)
                .with_context(|| format!("docs/configuration.list: unknown key {key}"))?;
            Ok(Key {
                key,
                values,
                default,
                meaning,
            })
        })
        .collect::<Result<_>>()?;
    ensure!(
        defaults.is_empty(),
        "docs/configuration.list: no line for {:?}",
        defaults.keys()
    );
    Ok(keys)
}

/// The keys of the file with their defaults, as `usher config` lists them; its list has neither modes nor recipes.
fn defaults(config: &Config) -> BTreeMap<String, String> {
    let others = [
        ("mode", "observe"),
        ("modes.quit", "observe"),
        ("modes.hold", "observe"),
        ("modes.linger", "observe"),
        ("recipes", "[]"),
    ];
    let others = others.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let settings = origin::settings(config, "", "").into_iter();
    settings
        .filter(|setting| !setting.key.starts_with("recipes."))
        .map(|setting| (setting.key, setting.value))
        .chain(others)
        .collect()
}

#[cfg(test)]
mod tests {
    use usher_core::settings::mode::{Modes, NodeModes, NodeValues};

    use super::*;

    fn with(key: &str, value: &str) -> String {
        match key.split_once('.') {
            Some((outer, inner)) => format!("{outer}:\n  {inner}: {value}\n"),
            None => format!("{key}: {value}\n"),
        }
    }

    #[test]
    fn keys_exist_and_have_these_defaults() {
        let default = Config::default();
        for key in all(&default).unwrap() {
            let text = with(key.key, &key.default);
            let mut found = Config::parse("x", &text).unwrap();
            let modes = NodeModes::resolve(found.modes, &NodeValues::default()).modes();
            assert_eq!(modes, Modes::default(), "{text}");
            // The default mode and a key with the same mode are different values.
            found.modes = default.modes;
            assert_eq!(found, default, "{text}");
            let other = match key.values {
                "a list" if key.key == "recipes" => continue,
                "a list" => "[a]",
                "`true`, `false`" if key.default == "true" => "false",
                "`true`, `false`" => "true",
                "`open`, `closed`" => "closed",
                "`off`, `observe`, `enforce`" => "enforce",
                _ => "123s",
            };
            let text = with(key.key, other);
            assert_ne!(Config::parse("x", &text).unwrap(), default, "{text}");
        }
    }
}
