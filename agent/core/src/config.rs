//! The configuration file: recipes of one's own, excluded namespaces, defaults,
//! timings of the ladder.
//!
//! It is strict. An unknown key or a bad value is an error that names the
//! file, the line and the key, and nothing of the file is used.

pub mod origin;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    duration::Written,
    recipe::{self, Reads, Recipe},
};

/// Recipes that a file may have.
const RECIPES: usize = 256;
/// A file longer than this is no configuration, bytes.
const LONGEST: usize = 1024 * 1024;
/// Longest that a pod may be waited for by configuration.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// A hold shorter than this ends before any sidecar can be ready.
pub(crate) const SHORTEST_HOLD: Duration = Duration::from_secs(1);

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {}{what}", if .key.is_empty() { String::new() } else { format!("{}: ", .key) })]
pub struct BadConfig {
    /// The file.
    pub file: String,
    /// Line, from 1; 0 where it is not known.
    pub line: u64,
    /// Column, from 1; 0 where it is not known.
    pub column: u64,
    /// The key, as a path: `recipes[0].quit[1].post.port`.
    pub key: String,
    /// What is wrong there.
    pub what: String,
}

/// What counts for all pods of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The recipes in the order in which they are tried: custom ones, then the
    /// built-in ones whose names they have not taken.
    pub recipes: Arc<[Recipe]>,
    /// Namespaces whose pods are left alone.
    pub excluded_namespaces: BTreeSet<String>,
    /// What counts where neither pod nor Namespace says something.
    pub defaults: Defaults,
    /// Timings of the ladder.
    pub ladder: Ladder,
}

/// What counts where neither pod nor Namespace says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Whether sidecars of finished pods are asked to quit.
    pub quit: bool,
    /// Wait between the end of the last app and the first request.
    pub quit_delay: Duration,
    /// How long sidecars that can drain do so before they are asked to quit.
    pub drain: Duration,
    /// Whether a pod that succeeded may be made a failed one where nothing
    /// else ends its sidecar.
    pub spoil: bool,
    /// Whether connections wait until a sidecar is ready.
    pub hold: bool,
    /// How long they wait at most.
    pub hold_deadline: Duration,
    /// What happens then.
    pub on_deadline: OnDeadline,
    /// Whether they wait again while a sidecar that ended is started again.
    pub hold_again: bool,
}

/// What happens at the deadline of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeadline {
    /// Connections go, as they would without usher.
    Open,
    /// They wait on, and usher says so.
    Closed,
}

impl OnDeadline {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// Timings of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// How long one attempt may take.
    pub attempt: Duration,
    /// How long a sidecar may take to end beyond what its recipe says.
    pub settle: Duration,
    /// The same at least after a signal, the last resort.
    pub settle_signal: Duration,
    /// How long "nobody listens" is taken for "not yet".
    pub listen: Duration,
    /// Whether SIGKILL follows when nothing else helped.
    pub kill: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            recipes: recipe::builtin(),
            excluded_namespaces: BTreeSet::new(),
            defaults: Defaults::default(),
            ladder: Ladder::default(),
        }
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            quit: true,
            quit_delay: Duration::ZERO,
            drain: Duration::ZERO,
            spoil: false,
            hold: true,
            hold_deadline: Duration::from_secs(30),
            on_deadline: OnDeadline::Open,
            hold_again: false,
        }
    }
}

impl Default for Ladder {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(1),
            settle: Duration::from_secs(2),
            // As long as the kubelet's own grace period.
            settle_signal: Duration::from_secs(30),
            listen: Duration::from_secs(10),
            kill: false,
        }
    }
}

impl Config {
    /// Reads a configuration; `file` is its name for errors.
    ///
    /// # Errors
    /// [`BadConfig`], with the first thing that is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Self, BadConfig> {
        let raw: RawConfig = parse(file, text)?;
        let bad = |key: String, what: String| BadConfig {
            file: file.to_owned(),
            line: 0,
            column: 0,
            key,
            what,
        };
        if raw.recipes.len() > RECIPES {
            let what = format!("more than {RECIPES} recipes");
            return Err(bad("recipes".to_owned(), what));
        }
        let mut names = BTreeSet::new();
        for (at, recipe) in raw.recipes.iter().enumerate() {
            if !names.insert(recipe.name.clone()) {
                let what = format!("a second recipe {}", recipe.name);
                return Err(bad(format!("recipes[{at}].name"), what));
            }
        }
        let kept = recipe::builtin();
        let kept = kept.iter().filter(|recipe| !names.contains(&recipe.name));
        let defaults = raw.defaults.resolve();
        for (key, wait) in [
            ("defaults.quitDelay", defaults.quit_delay),
            ("defaults.drain", defaults.drain),
            ("defaults.holdDeadline", defaults.hold_deadline),
        ] {
            if wait > LONGEST_WAIT {
                return Err(bad(key.to_owned(), format!("longer than {LONGEST_WAIT:?}")));
            }
        }
        if defaults.hold_deadline < SHORTEST_HOLD {
            let what = format!("shorter than {SHORTEST_HOLD:?}");
            return Err(bad("defaults.holdDeadline".to_owned(), what));
        }
        let ladder = raw.ladder.resolve();
        if ladder.attempt.is_zero() {
            return Err(bad("ladder.attempt".to_owned(), "must not be 0".to_owned()));
        }
        Ok(Self {
            recipes: raw.recipes.iter().chain(kept).cloned().collect(),
            excluded_namespaces: raw.excluded_namespaces,
            defaults,
            ladder,
        })
    }

    /// What has to be kept of a pod so that this configuration can be applied.
    pub fn reads(&self) -> Reads {
        Reads::of(self.recipes.iter())
    }
}

/// Reads a list of recipes alone.
pub(crate) fn parse_recipes(file: &str, text: &str) -> Result<Vec<Recipe>, BadConfig> {
    parse(file, text)
}

fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, BadConfig> {
    let bad = |line, column, key: String, what: String| BadConfig {
        file: file.to_owned(),
        line,
        column,
        key,
        what,
    };
    if text.len() > LONGEST {
        let what = format!("longer than {LONGEST} bytes");
        return Err(bad(0, 0, String::new(), what));
    }
    let mut track = serde_path_to_error::Track::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |yaml| {
        T::deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track))
    });
    read.map_err(|error| {
        let place = error.location();
        let (line, column) = place.map_or((0, 0), |at| (at.line(), at.column()));
        let key = track.path().to_string();
        let what = error.without_snippet().to_string();
        // Said already.
        let said = format!(" at line {line}, column {column}");
        let what = what.strip_suffix(&said).unwrap_or(&what).to_owned();
        bad(
            line,
            column,
            if key == "." { String::new() } else { key },
            what,
        )
    })
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RawConfig {
    recipes: Vec<Recipe>,
    excluded_namespaces: BTreeSet<String>,
    defaults: RawDefaults,
    ladder: RawLadder,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RawDefaults {
    quit: Option<bool>,
    quit_delay: Option<Written>,
    drain: Option<Written>,
    spoil: Option<bool>,
    hold: Option<bool>,
    hold_deadline: Option<Written>,
    on_deadline: Option<OnDeadline>,
    hold_again: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RawLadder {
    attempt: Option<Written>,
    settle: Option<Written>,
    settle_signal: Option<Written>,
    listen: Option<Written>,
    kill: Option<bool>,
}

fn or(written: Option<Written>, default: Duration) -> Duration {
    written.map_or(default, |written| written.0)
}

impl RawDefaults {
    fn resolve(&self) -> Defaults {
        let default = Defaults::default();
        Defaults {
            quit: self.quit.unwrap_or(default.quit),
            quit_delay: or(self.quit_delay, default.quit_delay),
            drain: or(self.drain, default.drain),
            spoil: self.spoil.unwrap_or(default.spoil),
            hold: self.hold.unwrap_or(default.hold),
            hold_deadline: or(self.hold_deadline, default.hold_deadline),
            on_deadline: self.on_deadline.unwrap_or(default.on_deadline),
            hold_again: self.hold_again.unwrap_or(default.hold_again),
        }
    }
}

impl RawLadder {
    fn resolve(&self) -> Ladder {
        let default = Ladder::default();
        Ladder {
            attempt: or(self.attempt, default.attempt),
            settle: or(self.settle, default.settle),
            settle_signal: or(self.settle_signal, default.settle_signal),
            listen: or(self.listen, default.listen),
            kill: self.kill.unwrap_or(default.kill),
        }
    }
}

#[cfg(test)]
mod tests;
