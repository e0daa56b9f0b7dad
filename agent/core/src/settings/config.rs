//! The configuration file: recipes of one's own, excluded namespaces, defaults,
//! timings of the ladder.
//!
//! It is strict. An unknown key or a bad value is an error that names the
//! file, the line and the key, and nothing of the file is used.

mod format;
pub mod origin;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_saphyr::Location;

use self::{format::RawConfig, origin::Lines};
use crate::recipe::{self, Reads, Recipe};

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
#[error("{}: {}{what}", place(.file, *.line, *.column), if .key.is_empty() { String::new() } else { format!("{}: ", .key) })]
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

impl BadConfig {
    fn new(file: &str, at: Option<Location>, key: String, what: String) -> Self {
        Self {
            file: file.to_owned(),
            line: at.map_or(0, |at| at.line()),
            column: at.map_or(0, |at| at.column()),
            key,
            what,
        }
    }
}

/// `FILE:LINE:COLUMN`, or what of it is known.
fn place(file: &str, line: u64, column: u64) -> String {
    match line {
        0 => file.to_owned(),
        _ => format!("{file}:{line}:{column}"),
    }
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
        let bad = |key: String, at, what| BadConfig::new(file, at, key, what);
        let of_key = |section: &str, key: &str, what: String| {
            let at = Lines::of(text).of_key(section, key);
            bad(format!("{section}.{key}"), at, what)
        };
        if raw.recipes.len() > RECIPES {
            let at = Lines::of(text).of_recipe(RECIPES);
            let what = format!("more than {RECIPES} recipes");
            return Err(bad("recipes".to_owned(), at, what));
        }
        let mut names = BTreeSet::new();
        for (nr, recipe) in raw.recipes.iter().enumerate() {
            if !names.insert(recipe.name.clone()) {
                let at = Lines::of(text).of_recipe(nr);
                let what = format!("a second recipe {}", recipe.name);
                return Err(bad(format!("recipes[{nr}].name"), at, what));
            }
        }
        let kept = recipe::builtin();
        let kept = kept.iter().filter(|recipe| !names.contains(&recipe.name));
        let defaults = raw.defaults.resolve();
        for (key, wait) in [
            ("quitDelay", defaults.quit_delay),
            ("drain", defaults.drain),
            ("holdDeadline", defaults.hold_deadline),
        ] {
            if wait > LONGEST_WAIT {
                let what = format!("longer than {LONGEST_WAIT:?}");
                return Err(of_key("defaults", key, what));
            }
        }
        if defaults.hold_deadline < SHORTEST_HOLD {
            let what = format!("shorter than {SHORTEST_HOLD:?}");
            return Err(of_key("defaults", "holdDeadline", what));
        }
        let ladder = raw.ladder.resolve();
        if ladder.attempt.is_zero() {
            return Err(of_key("ladder", "attempt", "must not be 0".to_owned()));
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
    if text.len() > LONGEST {
        let what = format!("longer than {LONGEST} bytes");
        return Err(BadConfig::new(file, None, String::new(), what));
    }
    let mut track = serde_path_to_error::Track::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |yaml| {
        T::deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track))
    });
    read.map_err(|error| {
        let key = track.path().to_string();
        let key = if key == "." { String::new() } else { key };
        let what = error.without_snippet().to_string();
        let mut bad = BadConfig::new(file, error.location(), key, what);
        // Said already.
        let said = format!(" at line {}, column {}", bad.line, bad.column);
        if let Some(what) = bad.what.strip_suffix(&said) {
            bad.what = what.to_owned();
        }
        bad
    })
}

#[cfg(test)]
mod tests;
