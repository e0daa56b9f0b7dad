//! The configuration file: custom recipes, excluded namespaces, defaults, timings of the ladder.
//!
//! It is strict: an unknown key or an invalid value is an error with file, line and key, and the whole file is
//! rejected.

pub mod origin;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Deserialize;

use self::origin::Lines;
pub use super::strict_yaml::BadConfig;
use super::{
    mode::{DefaultModes, Mode},
    strict_yaml,
};
use crate::{
    base::duration,
    recipe::{self, Reads, Recipe},
};

/// Limit of the recipes in a file.
const RECIPES: usize = 256;
/// The longest delay that the configuration may set for a pod.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// A hold shorter than this ends before any sidecar can be ready.
pub(crate) const SHORTEST_HOLD: Duration = Duration::from_secs(1);

/// The configuration for all pods of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub modes: DefaultModes,
    /// The recipes in the order in which they are tried: custom ones, then the
    /// built-in ones whose names they have not taken.
    pub recipes: Arc<[Recipe]>,
    pub excluded_namespaces: BTreeSet<String>,
    pub defaults: Defaults,
    pub ladder: Ladder,
}

/// The keys of the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RawConfig {
    mode: Option<Mode>,
    modes: DefaultModes,
    recipes: Vec<Recipe>,
    excluded_namespaces: BTreeSet<String>,
    defaults: Defaults,
    ladder: Ladder,
}

/// Applies where neither the pod nor its Namespace has the annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Defaults {
    /// Whether sidecars of finished pods are terminated.
    pub quit: bool,
    /// Wait between the end of the last app and the first request.
    #[serde(deserialize_with = "duration::read")]
    pub quit_delay: Duration,
    /// Drain time before a sidecar that supports it is terminated.
    #[serde(deserialize_with = "duration::read")]
    pub drain: Duration,
    /// Whether a pod that succeeded may be made a failed one where nothing else ends its sidecar.
    pub allow_pod_failure: bool,
    /// Whether connections wait until a sidecar is ready.
    pub hold: bool,
    /// How long they wait at most.
    #[serde(deserialize_with = "duration::read")]
    pub hold_deadline: Duration,
    pub on_deadline: OnDeadline,
    /// Whether they wait again while a sidecar that ended is started again.
    pub hold_again: bool,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum OnDeadline {
    /// Connections are released, as they would be without usher.
    Open,
    /// They go on to wait, and usher reports it.
    Closed,
}

/// Timings of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Ladder {
    /// How long one attempt may take.
    #[serde(deserialize_with = "duration::read")]
    pub attempt: Duration,
    /// How long a sidecar may take to end beyond what its recipe says.
    #[serde(deserialize_with = "duration::read")]
    pub settle: Duration,
    /// The minimum of that time after a signal.
    #[serde(deserialize_with = "duration::read")]
    pub settle_signal: Duration,
    /// How long a refused connection counts as "not listening yet".
    #[serde(deserialize_with = "duration::read")]
    pub listen: Duration,
    /// Whether SIGKILL follows when nothing else helped.
    pub kill: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            modes: DefaultModes::default(),
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
            allow_pod_failure: false,
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
        let raw: RawConfig = strict_yaml::parse(file, text)?;
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
        let defaults = raw.defaults;
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
        if raw.ladder.attempt.is_zero() {
            return Err(of_key("ladder", "attempt", "must not be 0".to_owned()));
        }
        Ok(Self {
            modes: DefaultModes {
                all: raw.mode,
                ..raw.modes
            },
            recipes: raw.recipes.iter().chain(kept).cloned().collect(),
            excluded_namespaces: raw.excluded_namespaces,
            defaults,
            ladder: raw.ladder,
        })
    }

    /// The parts of a pod that this configuration reads.
    pub fn reads(&self) -> Reads {
        Reads::of(self.recipes.iter())
    }
}

#[cfg(test)]
mod tests;
