//! Annotations, and the keys of the configuration file.

use std::time::Duration;

use usher_core::settings::{
    annotation::{self, Known},
    config::{Config, Defaults, Ladder},
};

use super::markdown::{code, codes, listed, table};

/// A key of the configuration file.
struct Key {
    key: &'static str,
    takes: &'static str,
    default: String,
    meaning: &'static str,
}

/// What usher reads from Nodes, Namespaces and pods.
pub(super) fn annotations() -> String {
    let rows: Vec<_> = annotation::KNOWN.iter().map(row).collect();
    table(["annotation", "on", "values", "default", "meaning"], &rows)
}

fn row(known: &Known) -> [String; 5] {
    let on = known.on.iter().map(|holder| holder.as_str().to_owned());
    let on: Vec<String> = on.collect();
    [
        code(known.key),
        listed(&on, "or"),
        codes(known.values.iter().copied(), "or"),
        known.default.map_or_else(String::new, code),
        known.meaning.to_owned(),
    ]
}

/// The keys and their defaults.
pub(super) fn keys() -> String {
    let row = |key: Key| {
        [
            code(key.key),
            key.takes.to_owned(),
            code(&key.default),
            key.meaning.to_owned(),
        ]
    };
    let rows: Vec<_> = all(&Config::default()).into_iter().map(row).collect();
    table(["key", "takes", "default", "meaning"], &rows)
}

/// Every key, as a path.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all(&Config::default()).into_iter().map(|key| key.key)
}

/// Every key. Whoever adds one to the configuration is told by the compiler to say here what it is.
fn all(config: &Config) -> Vec<Key> {
    let Config {
        recipes: _,
        excluded_namespaces: _,
        defaults:
            Defaults {
                quit,
                quit_delay,
                drain,
                spoil,
                hold,
                hold_deadline,
                on_deadline,
                hold_again,
            },
        ladder:
            Ladder {
                attempt,
                settle,
                settle_signal,
                listen,
                kill,
            },
    } = config;
    const LIST: &str = "a list";
    const BOOLEAN: &str = "`true`, `false`";
    const WAIT: &str = "a duration up to 10m";
    const TIME: &str = "a duration";
    let key = |key, takes, default: String, meaning| Key {
        key,
        takes,
        default,
        meaning,
    };
    vec![
        key(
            "recipes",
            LIST,
            "[]".to_owned(),
            "Recipes of one's own, tried before the built-in ones; one of the same name replaces a built-in one",
        ),
        key(
            "excludedNamespaces",
            LIST,
            "[]".to_owned(),
            "Namespaces whose pods are left alone, whatever they say",
        ),
        key(
            "defaults.quit",
            BOOLEAN,
            quit.to_string(),
            "As `usher.dev/quit` of pods and Namespaces, where they say nothing",
        ),
        key(
            "defaults.quitDelay",
            WAIT,
            duration(*quit_delay),
            "As `usher.dev/quit-delay`",
        ),
        key(
            "defaults.drain",
            WAIT,
            duration(*drain),
            "As `usher.dev/drain`",
        ),
        key(
            "defaults.spoil",
            BOOLEAN,
            spoil.to_string(),
            "As `usher.dev/spoil`",
        ),
        key(
            "defaults.hold",
            BOOLEAN,
            hold.to_string(),
            "As `usher.dev/hold` of pods and Namespaces, where they say nothing",
        ),
        key(
            "defaults.holdDeadline",
            "a duration of 1s to 10m",
            duration(*hold_deadline),
            "As `usher.dev/hold-deadline`",
        ),
        key(
            "defaults.onDeadline",
            "`open`, `closed`",
            on_deadline.as_str().to_owned(),
            "As `usher.dev/on-deadline`",
        ),
        key(
            "defaults.holdAgain",
            BOOLEAN,
            hold_again.to_string(),
            "As `usher.dev/hold-again`",
        ),
        key(
            "ladder.attempt",
            "a duration, not 0",
            duration(*attempt),
            "How long one request may take",
        ),
        key(
            "ladder.settle",
            TIME,
            duration(*settle),
            "How long a sidecar has to end beyond what its recipe states, before the next step",
        ),
        key(
            "ladder.settleSignal",
            TIME,
            duration(*settle_signal),
            "The least time that it has after a signal",
        ),
        key(
            "ladder.listen",
            TIME,
            duration(*listen),
            "Age of a sidecar up to which \"nobody listens\" is taken for \"not yet\"",
        ),
        key(
            "ladder.kill",
            BOOLEAN,
            kill.to_string(),
            "Whether SIGKILL is the last step. It ends with 137, which fails a pod that succeeded",
        ),
    ]
}

/// A duration as the file has it.
fn duration(duration: Duration) -> String {
    format!("{duration:?}").replace("ns", "s")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration with one key in it.
    fn with(key: &str, value: &str) -> String {
        match key.split_once('.') {
            Some((outer, inner)) => format!("{outer}:\n  {inner}: {value}\n"),
            None => format!("{key}: {value}\n"),
        }
    }

    #[test]
    fn keys_exist_and_have_these_defaults() {
        let default = Config::default();
        for key in all(&default) {
            let text = with(key.key, &key.default);
            assert_eq!(Config::parse("x", &text).unwrap(), default, "{text}");
            let other = match key.takes {
                "a list" if key.key == "recipes" => continue,
                "a list" => "[a]",
                "`true`, `false`" if key.default == "true" => "false",
                "`true`, `false`" => "true",
                "`open`, `closed`" => "closed",
                _ => "123s",
            };
            let text = with(key.key, other);
            assert_ne!(Config::parse("x", &text).unwrap(), default, "{text}");
        }
    }
}
